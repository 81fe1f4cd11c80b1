"""The backend of torch.compile: graphs of ATen in, pieces of them written as defs."""
