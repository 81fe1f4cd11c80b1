"""The backends that come with tc, installed as `tc_backends`; tc.registry finds them by entry point."""
