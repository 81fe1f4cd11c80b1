loop:
    vmovups -96(%rax,%rsi), %ymm0
    vmovaps constant, %ymm14
    vsubps %ymm14, %ymm0, %ymm0
    vminps %ymm0, %ymm7, %ymm0
    vmaxps %ymm0, %ymm8, %ymm0
    vmovaps constant, %ymm9
    vmovaps %ymm9, %ymm1
    vfmadd213ps %ymm12, %ymm0, %ymm1
    vsubps %ymm12, %ymm1, %ymm2
    vfmadd231ps %ymm6, %ymm2, %ymm0
    vmovaps constant, %ymm13
    vfmadd231ps %ymm2, %ymm13, %ymm0
    vmovaps constant, %ymm3
    vmovaps %ymm3, %ymm2
    vmovaps %ymm3, %ymm11
    vfmadd213ps constant, %ymm0, %ymm2
    vmovaps constant, %ymm10
    vfmadd213ps %ymm10, %ymm0, %ymm2
    vmovaps constant, %ymm5
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vfmadd213ps constant, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -96(%rcx,%rsi)
    vmovups -64(%rax,%rsi), %ymm0
    vsubps %ymm14, %ymm0, %ymm0
    vminps %ymm0, %ymm7, %ymm0
    vmaxps %ymm0, %ymm8, %ymm0
    vmovaps %ymm9, %ymm1
    vfmadd213ps %ymm12, %ymm0, %ymm1
    vsubps %ymm12, %ymm1, %ymm2
    vfmadd231ps %ymm6, %ymm2, %ymm0
    vfmadd231ps %ymm2, %ymm13, %ymm0
    vmovaps %ymm11, %ymm2
    vmovaps constant, %ymm13
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vfmadd213ps %ymm10, %ymm0, %ymm2
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vmovaps constant, %ymm4
    vfmadd213ps %ymm4, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -64(%rcx,%rsi)
    vmovups -32(%rax,%rsi), %ymm0
    vsubps %ymm14, %ymm0, %ymm0
    vminps %ymm0, %ymm7, %ymm0
    vmaxps %ymm0, %ymm8, %ymm0
    vmovaps %ymm9, %ymm1
    vfmadd213ps %ymm12, %ymm0, %ymm1
    vsubps %ymm12, %ymm1, %ymm2
    vfmadd231ps %ymm6, %ymm2, %ymm0
    vmovaps constant, %ymm10
    vfmadd231ps %ymm2, %ymm10, %ymm0
    vmovaps %ymm11, %ymm2
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vmovaps constant, %ymm11
    vfmadd213ps %ymm11, %ymm0, %ymm2
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vfmadd213ps %ymm4, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -32(%rcx,%rsi)
    vmovups (%rax,%rsi), %ymm0
    vsubps %ymm14, %ymm0, %ymm0
    vminps %ymm0, %ymm7, %ymm0
    vmaxps %ymm0, %ymm8, %ymm0
    vfmadd213ps %ymm12, %ymm0, %ymm9
    vsubps %ymm12, %ymm9, %ymm2
    vfmadd231ps %ymm6, %ymm2, %ymm0
    vfmadd231ps %ymm2, %ymm10, %ymm0
    vmovaps constant, %ymm2
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vfmadd213ps %ymm11, %ymm0, %ymm2
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vfmadd213ps %ymm4, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vfmadd213ps %ymm15, %ymm0, %ymm2
    vpsrld $1, %ymm9, %ymm0
    vpslld $23, %ymm0, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm9, %ymm0
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, (%rcx,%rsi)
    incq %rdi
    subq $-128, %rsi
    cmpq $2, %rdi
    jl loop
