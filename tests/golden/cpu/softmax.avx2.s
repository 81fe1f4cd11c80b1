loop:
    vmovups -96(%rax,%rsi), %ymm0
    vmovaps constant, %ymm7
    vsubps %ymm7, %ymm0, %ymm0
    vminps %ymm0, %ymm8, %ymm0
    vmovaps constant, %ymm9
    vmaxps %ymm0, %ymm9, %ymm0
    vmovaps constant, %ymm2
    vmovaps %ymm2, %ymm1
    vmovaps %ymm2, %ymm11
    vfmadd213ps %ymm14, %ymm0, %ymm1
    vsubps %ymm14, %ymm1, %ymm2
    vmovaps constant, %ymm5
    vfmadd231ps %ymm5, %ymm2, %ymm0
    vmovaps constant, %ymm15
    vfmadd231ps %ymm2, %ymm15, %ymm0
    vmovaps constant, %ymm3
    vmovaps %ymm3, %ymm2
    vmovaps %ymm3, %ymm12
    vmovaps constant, %ymm13
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vfmadd213ps constant, %ymm0, %ymm2
    vfmadd213ps constant, %ymm0, %ymm2
    vfmadd213ps constant, %ymm0, %ymm2
    vmovaps constant, %ymm6
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vpaddd %ymm4, %ymm3, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vpaddd %ymm4, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -96(%rcx,%rsi)
    vmovups -64(%rax,%rsi), %ymm0
    vsubps %ymm7, %ymm0, %ymm0
    vminps %ymm0, %ymm8, %ymm0
    vmaxps %ymm0, %ymm9, %ymm0
    vmovaps %ymm11, %ymm1
    vmovaps %ymm11, %ymm10
    vfmadd213ps %ymm14, %ymm0, %ymm1
    vsubps %ymm14, %ymm1, %ymm2
    vfmadd231ps %ymm5, %ymm2, %ymm0
    vmovaps %ymm5, %ymm11
    vfmadd231ps %ymm2, %ymm15, %ymm0
    vmovaps %ymm12, %ymm2
    vmovaps %ymm12, %ymm15
    vmovaps %ymm13, %ymm12
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vmovaps constant, %ymm13
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vmovaps constant, %ymm7
    vfmadd213ps %ymm7, %ymm0, %ymm2
    vmovaps constant, %ymm5
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vpaddd %ymm4, %ymm3, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vpaddd %ymm4, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -64(%rcx,%rsi)
    vmovups -32(%rax,%rsi), %ymm0
    vsubps constant, %ymm0, %ymm0
    vminps %ymm0, %ymm8, %ymm0
    vmaxps %ymm0, %ymm9, %ymm0
    vmovaps %ymm10, %ymm1
    vfmadd213ps %ymm14, %ymm0, %ymm1
    vsubps %ymm14, %ymm1, %ymm2
    vfmadd231ps %ymm11, %ymm2, %ymm0
    vmovaps constant, %ymm10
    vfmadd231ps %ymm2, %ymm10, %ymm0
    vmovaps %ymm15, %ymm2
    vfmadd213ps %ymm12, %ymm0, %ymm2
    vfmadd213ps %ymm13, %ymm0, %ymm2
    vfmadd213ps %ymm7, %ymm0, %ymm2
    vfmadd213ps %ymm5, %ymm0, %ymm2
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vfmadd213ps %ymm6, %ymm0, %ymm2
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vpaddd %ymm4, %ymm3, %ymm3
    vmulps %ymm3, %ymm2, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vpaddd %ymm4, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, -32(%rcx,%rsi)
    vmovups (%rax,%rsi), %ymm0
    vsubps constant, %ymm0, %ymm0
    vminps %ymm0, %ymm8, %ymm0
    vmaxps %ymm0, %ymm9, %ymm0
    vmovaps constant, %ymm1
    vfmadd213ps %ymm14, %ymm0, %ymm1
    vsubps %ymm14, %ymm1, %ymm2
    vfmadd231ps %ymm11, %ymm2, %ymm0
    vfmadd231ps %ymm2, %ymm10, %ymm0
    vfmadd213ps %ymm12, %ymm0, %ymm15
    vfmadd213ps %ymm13, %ymm0, %ymm15
    vfmadd213ps %ymm7, %ymm0, %ymm15
    vfmadd213ps %ymm5, %ymm0, %ymm15
    vfmadd213ps %ymm6, %ymm0, %ymm15
    vfmadd213ps %ymm6, %ymm0, %ymm15
    vpsrld $1, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm3
    vpaddd %ymm4, %ymm3, %ymm3
    vmulps %ymm3, %ymm15, %ymm2
    vpsubd %ymm0, %ymm1, %ymm0
    vpslld $23, %ymm0, %ymm0
    vpaddd %ymm4, %ymm0, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmovups %ymm0, (%rcx,%rsi)
    incq %rdi
    subq $-128, %rsi
    cmpq $2, %rdi
    jl loop
