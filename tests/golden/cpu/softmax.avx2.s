loop:
    vmovups -96(%rax,%rdx), %ymm0
    vmovups -64(%rax,%rdx), %ymm1
    vmovups -32(%rax,%rdx), %ymm2
    vmovups (%rax,%rdx), %ymm4
    vmovaps stack, %ymm5
    vsubps %ymm5, %ymm0, %ymm0
    vsubps %ymm5, %ymm1, %ymm1
    vsubps %ymm5, %ymm2, %ymm2
    vsubps %ymm5, %ymm4, %ymm4
    vmaxps %ymm0, %ymm8, %ymm7
    vmaxps %ymm1, %ymm8, %ymm6
    vmaxps %ymm2, %ymm8, %ymm2
    vmaxps %ymm4, %ymm8, %ymm5
    vmovaps %ymm11, %ymm1
    vfmadd213ps %ymm15, %ymm7, %ymm1
    vmovaps %ymm11, %ymm4
    vfmadd213ps %ymm15, %ymm6, %ymm4
    vmovaps %ymm11, %ymm14
    vfmadd213ps %ymm15, %ymm2, %ymm14
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm15, %ymm5, %ymm9
    vsubps %ymm15, %ymm1, %ymm8
    vmovaps stack, %ymm12
    vfmadd231ps %ymm12, %ymm8, %ymm7
    vmovaps stack, %ymm11
    vfmadd231ps %ymm8, %ymm11, %ymm7
    vsubps %ymm15, %ymm4, %ymm8
    vfmadd231ps %ymm12, %ymm8, %ymm6
    vfmadd231ps %ymm8, %ymm11, %ymm6
    vsubps %ymm15, %ymm14, %ymm8
    vfmadd231ps %ymm12, %ymm8, %ymm2
    vfmadd231ps %ymm8, %ymm11, %ymm2
    vsubps %ymm15, %ymm9, %ymm8
    vfmadd231ps %ymm12, %ymm8, %ymm5
    vfmadd231ps %ymm8, %ymm11, %ymm5
    vmovaps stack, %ymm12
    vmovaps %ymm12, %ymm8
    vmovaps stack, %ymm11
    vfmadd213ps %ymm11, %ymm7, %ymm8
    vfmadd213ps %ymm13, %ymm7, %ymm8
    vmovaps stack, %ymm3
    vfmadd213ps %ymm3, %ymm7, %ymm8
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm7, %ymm8
    vfmadd213ps %ymm10, %ymm7, %ymm8
    vfmadd213ps %ymm10, %ymm7, %ymm8
    vmovaps %ymm12, %ymm7
    vfmadd213ps %ymm11, %ymm6, %ymm7
    vfmadd213ps %ymm13, %ymm6, %ymm7
    vfmadd213ps %ymm3, %ymm6, %ymm7
    vfmadd213ps %ymm0, %ymm6, %ymm7
    vfmadd213ps %ymm10, %ymm6, %ymm7
    vfmadd213ps %ymm10, %ymm6, %ymm7
    vmovaps %ymm12, %ymm6
    vfmadd213ps %ymm11, %ymm2, %ymm6
    vfmadd213ps %ymm13, %ymm2, %ymm6
    vfmadd213ps %ymm3, %ymm2, %ymm6
    vfmadd213ps %ymm0, %ymm2, %ymm6
    vfmadd213ps %ymm10, %ymm2, %ymm6
    vfmadd213ps %ymm10, %ymm2, %ymm6
    vmovaps %ymm12, %ymm2
    vfmadd213ps %ymm11, %ymm5, %ymm2
    vfmadd213ps %ymm13, %ymm5, %ymm2
    vfmadd213ps %ymm3, %ymm5, %ymm2
    vfmadd213ps %ymm0, %ymm5, %ymm2
    vfmadd213ps %ymm10, %ymm5, %ymm2
    vfmadd213ps %ymm10, %ymm5, %ymm2
    vpslld $23, %ymm1, %ymm1
    vmulps %ymm1, %ymm8, %ymm1
    vmovaps stack, %ymm8
    vmovaps stack, %ymm11
    vpslld $23, %ymm4, %ymm0
    vmulps %ymm0, %ymm7, %ymm0
    vmovaps stack, %ymm3
    vmulps %ymm3, %ymm1, %ymm1
    vmovups %ymm1, -96(%rdi,%rdx)
    vpslld $23, %ymm14, %ymm1
    vmulps %ymm1, %ymm6, %ymm1
    vmulps %ymm3, %ymm0, %ymm0
    vmovups %ymm0, -64(%rdi,%rdx)
    vmulps %ymm3, %ymm1, %ymm0
    vmovups %ymm0, -32(%rdi,%rdx)
    vpslld $23, %ymm9, %ymm0
    vmulps %ymm0, %ymm2, %ymm0
    vmulps %ymm3, %ymm0, %ymm0
    vmovups %ymm0, (%rdi,%rdx)
    incq %rsi
    subq $-128, %rdx
    cmpq $32, %rsi
    jl loop
