loop:
    vmovups -96(%rax,%rdx), %ymm0
    vmovups -64(%rax,%rdx), %ymm1
    vmovups -32(%rax,%rdx), %ymm4
    vmovups (%rax,%rdx), %ymm5
    vmovaps stack, %ymm9
    vsubps %ymm9, %ymm0, %ymm6
    vsubps %ymm9, %ymm1, %ymm7
    vsubps %ymm9, %ymm4, %ymm8
    vsubps %ymm9, %ymm5, %ymm4
    vmaxps %ymm6, %ymm10, %ymm5
    vmaxps %ymm7, %ymm10, %ymm0
    vmaxps %ymm8, %ymm10, %ymm1
    vmaxps %ymm4, %ymm10, %ymm14
    vmovaps stack, %ymm11
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm3, %ymm5, %ymm9
    vsubps %ymm3, %ymm9, %ymm9
    vmovaps stack, %ymm12
    vfmadd231ps %ymm12, %ymm9, %ymm5
    vmovaps stack, %ymm15
    vfmadd231ps %ymm15, %ymm9, %ymm5
    vaddps %ymm3, %ymm9, %ymm9
    vpslld $23, %ymm9, %ymm9
    vmovdqa stack, %ymm2
    vpaddd %ymm2, %ymm9, %ymm9
    vcmpnltps %ymm10, %ymm6, %ymm6
    vandps %ymm6, %ymm9, %ymm6
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm3, %ymm0, %ymm9
    vsubps %ymm3, %ymm9, %ymm9
    vfmadd231ps %ymm12, %ymm9, %ymm0
    vfmadd231ps %ymm15, %ymm9, %ymm0
    vaddps %ymm3, %ymm9, %ymm9
    vpslld $23, %ymm9, %ymm9
    vpaddd %ymm2, %ymm9, %ymm9
    vcmpnltps %ymm10, %ymm7, %ymm7
    vandps %ymm7, %ymm9, %ymm7
    vmovaps %ymm7, stack
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm3, %ymm1, %ymm9
    vsubps %ymm3, %ymm9, %ymm9
    vfmadd231ps %ymm12, %ymm9, %ymm1
    vfmadd231ps %ymm15, %ymm9, %ymm1
    vaddps %ymm3, %ymm9, %ymm9
    vpslld $23, %ymm9, %ymm9
    vpaddd %ymm2, %ymm9, %ymm9
    vcmpnltps %ymm10, %ymm8, %ymm8
    vandps %ymm9, %ymm8, %ymm8
    vfmadd213ps %ymm3, %ymm14, %ymm11
    vsubps %ymm3, %ymm11, %ymm9
    vfmadd231ps %ymm12, %ymm9, %ymm14
    vfmadd231ps %ymm15, %ymm9, %ymm14
    vaddps %ymm3, %ymm9, %ymm9
    vpslld $23, %ymm9, %ymm9
    vpaddd %ymm2, %ymm9, %ymm9
    vcmpnltps %ymm10, %ymm4, %ymm4
    vandps %ymm4, %ymm9, %ymm7
    vmovaps stack, %ymm11
    vmovaps %ymm11, %ymm9
    vmovaps stack, %ymm2
    vfmadd213ps %ymm2, %ymm5, %ymm9
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm5, %ymm9
    vmovaps stack, %ymm15
    vfmadd213ps %ymm15, %ymm5, %ymm9
    vmovaps %ymm3, %ymm4
    vmovaps stack, %ymm3
    vfmadd213ps %ymm3, %ymm5, %ymm9
    vfmadd213ps %ymm13, %ymm5, %ymm9
    vfmadd213ps %ymm13, %ymm5, %ymm9
    vmulps %ymm6, %ymm9, %ymm5
    vmovaps %ymm11, %ymm6
    vfmadd213ps %ymm2, %ymm0, %ymm6
    vfmadd213ps %ymm12, %ymm0, %ymm6
    vfmadd213ps %ymm15, %ymm0, %ymm6
    vfmadd213ps %ymm3, %ymm0, %ymm6
    vfmadd213ps %ymm13, %ymm0, %ymm6
    vfmadd213ps %ymm13, %ymm0, %ymm6
    vmulps stack, %ymm6, %ymm0
    vmovaps %ymm11, %ymm6
    vfmadd213ps %ymm2, %ymm1, %ymm6
    vfmadd213ps %ymm12, %ymm1, %ymm6
    vfmadd213ps %ymm15, %ymm1, %ymm6
    vfmadd213ps %ymm3, %ymm1, %ymm6
    vfmadd213ps %ymm13, %ymm1, %ymm6
    vfmadd213ps %ymm13, %ymm1, %ymm6
    vmulps %ymm6, %ymm8, %ymm1
    vmovaps %ymm11, %ymm6
    vfmadd213ps %ymm2, %ymm14, %ymm6
    vfmadd213ps %ymm12, %ymm14, %ymm6
    vfmadd213ps %ymm15, %ymm14, %ymm6
    vfmadd213ps %ymm3, %ymm14, %ymm6
    vmovaps %ymm4, %ymm3
    vfmadd213ps %ymm13, %ymm14, %ymm6
    vfmadd213ps %ymm13, %ymm14, %ymm6
    vmulps %ymm7, %ymm6, %ymm4
    vmovups %ymm5, -96(%rdi,%rdx)
    vmovups %ymm0, -64(%rdi,%rdx)
    vmovups %ymm1, -32(%rdi,%rdx)
    vmovups %ymm4, (%rdi,%rdx)
    incq %rsi
    subq $-128, %rdx
    cmpq $32, %rsi
    jl loop
