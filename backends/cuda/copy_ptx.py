"""The kernel of `copies.py` as PTX, which drivers from CUDA 10.0 on take for devices from sm_75 on."""

PTX = """\
.version 6.3
.target sm_75
.address_size 64

.visible .entry copy(
    .param .u64 copy_param_0,
    .param .u64 copy_param_1,
    .param .u64 copy_param_2,
    .param .u64 copy_param_3,
    .param .u64 copy_param_4,
    .param .u64 copy_param_5,
    .param .u64 copy_param_6,
    .param .u64 copy_param_7,
    .param .u64 copy_param_8,
    .param .u64 copy_param_9,
    .param .u64 copy_param_10,
    .param .u64 copy_param_11,
    .param .u64 copy_param_12,
    .param .u64 copy_param_13,
    .param .u64 copy_param_14
)
.maxntid 256, 1, 1
{
    .reg .pred     %p<8>;
    .reg .b16     %rs<3>;
    .reg .b32     %r<19>;
    .reg .b64     %rd<71>;


    ld.param.u64     %rd22, [copy_param_0];
    ld.param.u64     %rd23, [copy_param_1];
    ld.param.u64     %rd24, [copy_param_2];
    ld.param.u64     %rd36, [copy_param_3];
    ld.param.u64     %rd25, [copy_param_4];
    ld.param.u64     %rd26, [copy_param_5];
    ld.param.u64     %rd27, [copy_param_6];
    ld.param.u64     %rd28, [copy_param_7];
    ld.param.u64     %rd29, [copy_param_8];
    ld.param.u64     %rd30, [copy_param_9];
    ld.param.u64     %rd31, [copy_param_10];
    ld.param.u64     %rd32, [copy_param_11];
    ld.param.u64     %rd33, [copy_param_12];
    ld.param.u64     %rd34, [copy_param_13];
    ld.param.u64     %rd35, [copy_param_14];
    mov.u32     %r1, %ctaid.x;
    mul.wide.u32     %rd37, %r1, 256;
    mov.u32     %r2, %tid.x;
    cvt.u64.u32     %rd38, %r2;
    add.s64     %rd1, %rd37, %rd38;
    setp.ge.s64     %p1, %rd1, %rd36;
    @%p1 bra     $L__BB0_17;

    or.b64      %rd39, %rd1, %rd27;
    and.b64      %rd40, %rd39, -4294967296;
    setp.eq.s64     %p2, %rd40, 0;
    @%p2 bra     $L__BB0_3;

    div.s64     %rd65, %rd1, %rd27;
    mul.lo.s64     %rd41, %rd65, %rd27;
    sub.s64     %rd66, %rd1, %rd41;
    bra.uni     $L__BB0_4;

$L__BB0_3:
    cvt.u32.u64     %r3, %rd27;
    cvt.u32.u64     %r4, %rd1;
    div.u32     %r5, %r4, %r3;
    mul.lo.s32     %r6, %r5, %r3;
    sub.s32     %r7, %r4, %r6;
    cvt.u64.u32     %rd65, %r5;
    cvt.u64.u32     %rd66, %r7;

$L__BB0_4:
    or.b64      %rd42, %rd65, %rd26;
    and.b64      %rd43, %rd42, -4294967296;
    setp.eq.s64     %p3, %rd43, 0;
    @%p3 bra     $L__BB0_6;

    div.s64     %rd67, %rd65, %rd26;
    mul.lo.s64     %rd44, %rd67, %rd26;
    sub.s64     %rd68, %rd65, %rd44;
    bra.uni     $L__BB0_7;

$L__BB0_6:
    cvt.u32.u64     %r8, %rd26;
    cvt.u32.u64     %r9, %rd65;
    div.u32     %r10, %r9, %r8;
    mul.lo.s32     %r11, %r10, %r8;
    sub.s32     %r12, %r9, %r11;
    cvt.u64.u32     %rd67, %r10;
    cvt.u64.u32     %rd68, %r12;

$L__BB0_7:
    or.b64      %rd45, %rd67, %rd25;
    and.b64      %rd46, %rd45, -4294967296;
    setp.eq.s64     %p4, %rd46, 0;
    @%p4 bra     $L__BB0_9;

    div.s64     %rd69, %rd67, %rd25;
    mul.lo.s64     %rd47, %rd69, %rd25;
    sub.s64     %rd70, %rd67, %rd47;
    bra.uni     $L__BB0_10;

$L__BB0_9:
    cvt.u32.u64     %r13, %rd25;
    cvt.u32.u64     %r14, %rd67;
    div.u32     %r15, %r14, %r13;
    mul.lo.s32     %r16, %r15, %r13;
    sub.s32     %r17, %r14, %r16;
    cvt.u64.u32     %rd69, %r15;
    cvt.u64.u32     %rd70, %r17;

$L__BB0_10:
    mul.lo.s64     %rd48, %rd66, %rd31;
    mul.lo.s64     %rd49, %rd68, %rd30;
    add.s64     %rd50, %rd49, %rd48;
    mul.lo.s64     %rd51, %rd70, %rd29;
    add.s64     %rd52, %rd50, %rd51;
    mul.lo.s64     %rd53, %rd69, %rd28;
    add.s64     %rd54, %rd52, %rd53;
    cvta.to.global.u64     %rd55, %rd22;
    add.s64     %rd20, %rd55, %rd54;
    mul.lo.s64     %rd56, %rd66, %rd35;
    mul.lo.s64     %rd57, %rd68, %rd34;
    add.s64     %rd58, %rd57, %rd56;
    mul.lo.s64     %rd59, %rd70, %rd33;
    add.s64     %rd60, %rd58, %rd59;
    mul.lo.s64     %rd61, %rd69, %rd32;
    add.s64     %rd62, %rd60, %rd61;
    cvta.to.global.u64     %rd63, %rd23;
    add.s64     %rd21, %rd63, %rd62;
    setp.eq.s64     %p5, %rd24, 8;
    @%p5 bra     $L__BB0_14;

    setp.eq.s64     %p6, %rd24, 4;
    @%p6 bra     $L__BB0_15;

    setp.ne.s64     %p7, %rd24, 2;
    @%p7 bra     $L__BB0_16;

    ld.global.u16     %rs1, [%rd20];
    st.global.u16     [%rd21], %rs1;
    bra.uni     $L__BB0_17;

$L__BB0_14:
    ld.global.u64     %rd64, [%rd20];
    st.global.u64     [%rd21], %rd64;
    bra.uni     $L__BB0_17;

$L__BB0_15:
    ld.global.u32     %r18, [%rd20];
    st.global.u32     [%rd21], %r18;
    bra.uni     $L__BB0_17;

$L__BB0_16:
    ld.global.u8     %rs2, [%rd20];
    st.global.u8     [%rd21], %rs2;

$L__BB0_17:
    ret;

}
"""
