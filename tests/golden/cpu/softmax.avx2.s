loop:
    vmovups -96(%rax,%rdx), %ymm0
    vmovups -64(%rax,%rdx), %ymm1
    vmovups -32(%rax,%rdx), %ymm2
    vmovups (%rax,%rdx), %ymm3
    vmovaps stack, %ymm5
    vsubps %ymm5, %ymm0, %ymm0
    vsubps %ymm5, %ymm1, %ymm1
    vsubps %ymm5, %ymm2, %ymm2
    vsubps %ymm5, %ymm3, %ymm3
    vminps %ymm0, %ymm7, %ymm0
    vminps %ymm1, %ymm7, %ymm1
    vminps %ymm2, %ymm7, %ymm5
    vminps %ymm3, %ymm7, %ymm3
    vmaxps %ymm0, %ymm8, %ymm7
    vmaxps %ymm1, %ymm8, %ymm2
    vmaxps %ymm5, %ymm8, %ymm6
    vmaxps %ymm3, %ymm8, %ymm3
    vmovaps %ymm9, %ymm0
    vfmadd213ps %ymm13, %ymm7, %ymm0
    vmovaps %ymm9, %ymm12
    vfmadd213ps %ymm13, %ymm2, %ymm12
    vmovaps %ymm9, %ymm5
    vfmadd213ps %ymm13, %ymm6, %ymm5
    vmovaps %ymm5, stack
    vmovaps %ymm9, %ymm14
    vfmadd213ps %ymm13, %ymm3, %ymm14
    vsubps %ymm13, %ymm0, %ymm8
    vmovaps %ymm0, %ymm4
    vsubps %ymm13, %ymm12, %ymm9
    vsubps %ymm13, %ymm5, %ymm10
    vsubps %ymm13, %ymm14, %ymm11
    vmovaps stack, %ymm0
    vfmadd231ps %ymm0, %ymm8, %ymm7
    vfmadd231ps %ymm0, %ymm9, %ymm2
    vfmadd231ps %ymm0, %ymm10, %ymm6
    vfmadd231ps %ymm0, %ymm11, %ymm3
    vmovaps stack, %ymm0
    vfmadd231ps %ymm8, %ymm0, %ymm7
    vfmadd231ps %ymm9, %ymm0, %ymm2
    vfmadd231ps %ymm10, %ymm0, %ymm6
    vfmadd231ps %ymm11, %ymm0, %ymm3
    vmovaps stack, %ymm11
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm15, %ymm7, %ymm9
    vmovaps %ymm11, %ymm8
    vfmadd213ps %ymm15, %ymm2, %ymm8
    vmovaps %ymm11, %ymm10
    vfmadd213ps %ymm15, %ymm6, %ymm10
    vfmadd213ps %ymm15, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm7, %ymm9
    vfmadd213ps %ymm0, %ymm2, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm7, %ymm9
    vfmadd213ps %ymm0, %ymm2, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm7, %ymm9
    vfmadd213ps %ymm0, %ymm2, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm7, %ymm9
    vfmadd213ps %ymm0, %ymm2, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vfmadd213ps %ymm0, %ymm7, %ymm9
    vfmadd213ps %ymm0, %ymm2, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vpsrld $1, %ymm4, %ymm2
    vpsrld $1, %ymm12, %ymm3
    vmovdqa %ymm12, %ymm5
    vmovdqa stack, %ymm0
    vpsrld $1, %ymm0, %ymm6
    vpsrld $1, %ymm14, %ymm7
    vpslld $23, %ymm2, %ymm12
    vmulps %ymm12, %ymm9, %ymm9
    vpslld $23, %ymm3, %ymm12
    vmulps %ymm12, %ymm8, %ymm8
    vpslld $23, %ymm6, %ymm12
    vmulps %ymm12, %ymm10, %ymm10
    vpslld $23, %ymm7, %ymm12
    vmulps %ymm12, %ymm11, %ymm11
    vpsubd %ymm2, %ymm4, %ymm2
    vpsubd %ymm3, %ymm5, %ymm3
    vpsubd %ymm6, %ymm0, %ymm1
    vpsubd %ymm7, %ymm14, %ymm0
    vmovaps stack, %ymm7
    vpslld $23, %ymm2, %ymm2
    vmulps %ymm2, %ymm9, %ymm2
    vmovaps stack, %ymm9
    vpslld $23, %ymm3, %ymm3
    vmulps %ymm3, %ymm8, %ymm3
    vmovaps stack, %ymm8
    vpslld $23, %ymm1, %ymm1
    vmulps %ymm1, %ymm10, %ymm1
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm11, %ymm0
    vmovups %ymm2, -96(%rdi,%rdx)
    vmovups %ymm3, -64(%rdi,%rdx)
    vmovups %ymm1, -32(%rdi,%rdx)
    vmovups %ymm0, (%rdi,%rdx)
    incq %rsi
    subq $-128, %rdx
    cmpq $32, %rsi
    jl loop
