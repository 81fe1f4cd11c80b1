loop:
    vmovups -224(%rax,%rdx), %ymm0
    vmovups -192(%rax,%rdx), %ymm1
    vmovups -160(%rax,%rdx), %ymm2
    vmovups -128(%rax,%rdx), %ymm3
    vmovaps stack, %ymm15
    vsubps %ymm15, %ymm0, %ymm0
    vsubps %ymm15, %ymm1, %ymm1
    vsubps %ymm15, %ymm2, %ymm2
    vsubps %ymm15, %ymm3, %ymm3
    vmovaps %ymm4, %ymm14
    vmovaps stack, %ymm4
    vminps %ymm0, %ymm4, %ymm0
    vminps %ymm1, %ymm4, %ymm1
    vminps %ymm2, %ymm4, %ymm5
    vminps %ymm3, %ymm4, %ymm3
    vmovaps stack, %ymm8
    vmaxps %ymm0, %ymm8, %ymm2
    vmaxps %ymm1, %ymm8, %ymm7
    vmaxps %ymm5, %ymm8, %ymm6
    vmaxps %ymm3, %ymm8, %ymm3
    vmovaps stack, %ymm5
    vmovaps %ymm5, %ymm0
    vfmadd213ps %ymm14, %ymm2, %ymm0
    vmovaps %ymm5, %ymm9
    vfmadd213ps %ymm14, %ymm7, %ymm9
    vmovaps %ymm9, stack
    vmovaps %ymm5, %ymm1
    vfmadd213ps %ymm14, %ymm6, %ymm1
    vmovaps %ymm1, stack
    vfmadd213ps %ymm14, %ymm3, %ymm5
    vsubps %ymm14, %ymm0, %ymm8
    vmovaps %ymm0, %ymm4
    vsubps %ymm14, %ymm9, %ymm9
    vsubps %ymm14, %ymm1, %ymm10
    vsubps %ymm14, %ymm5, %ymm11
    vmovaps stack, %ymm0
    vfmadd231ps %ymm0, %ymm8, %ymm2
    vfmadd231ps %ymm0, %ymm9, %ymm7
    vfmadd231ps %ymm0, %ymm10, %ymm6
    vfmadd231ps %ymm0, %ymm11, %ymm3
    vmovaps stack, %ymm0
    vfmadd231ps %ymm8, %ymm0, %ymm2
    vfmadd231ps %ymm9, %ymm0, %ymm7
    vfmadd231ps %ymm10, %ymm0, %ymm6
    vfmadd231ps %ymm11, %ymm0, %ymm3
    vmovaps stack, %ymm11
    vmovaps %ymm11, %ymm9
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm2, %ymm9
    vmovaps %ymm11, %ymm8
    vfmadd213ps %ymm12, %ymm7, %ymm8
    vmovaps %ymm11, %ymm10
    vfmadd213ps %ymm12, %ymm6, %ymm10
    vfmadd213ps %ymm12, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm2, %ymm9
    vfmadd213ps %ymm0, %ymm7, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm2, %ymm9
    vfmadd213ps %ymm0, %ymm7, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vmovaps stack, %ymm0
    vfmadd213ps %ymm0, %ymm2, %ymm9
    vfmadd213ps %ymm0, %ymm7, %ymm8
    vfmadd213ps %ymm0, %ymm6, %ymm10
    vfmadd213ps %ymm0, %ymm3, %ymm11
    vfmadd213ps %ymm13, %ymm2, %ymm9
    vfmadd213ps %ymm13, %ymm7, %ymm8
    vfmadd213ps %ymm13, %ymm6, %ymm10
    vfmadd213ps %ymm13, %ymm3, %ymm11
    vfmadd213ps %ymm13, %ymm2, %ymm9
    vfmadd213ps %ymm13, %ymm7, %ymm8
    vfmadd213ps %ymm13, %ymm6, %ymm10
    vfmadd213ps %ymm13, %ymm3, %ymm11
    vmovaps %ymm4, %ymm0
    vpsrld $1, %ymm4, %ymm2
    vmovdqa stack, %ymm1
    vpsrld $1, %ymm1, %ymm3
    vmovdqa stack, %ymm4
    vpsrld $1, %ymm4, %ymm6
    vpsrld $1, %ymm5, %ymm7
    vpslld $23, %ymm2, %ymm12
    vmulps %ymm12, %ymm9, %ymm9
    vpslld $23, %ymm3, %ymm12
    vmulps %ymm12, %ymm8, %ymm8
    vpslld $23, %ymm6, %ymm12
    vmulps %ymm12, %ymm10, %ymm10
    vpslld $23, %ymm7, %ymm12
    vmulps %ymm12, %ymm11, %ymm11
    vpsubd %ymm2, %ymm0, %ymm2
    vpsubd %ymm3, %ymm1, %ymm3
    vpsubd %ymm6, %ymm4, %ymm1
    vpsubd %ymm7, %ymm5, %ymm0
    vpslld $23, %ymm2, %ymm2
    vmulps %ymm2, %ymm9, %ymm2
    vpslld $23, %ymm3, %ymm3
    vmulps %ymm3, %ymm8, %ymm3
    vpslld $23, %ymm1, %ymm1
    vmulps %ymm1, %ymm10, %ymm1
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm11, %ymm0
    vmovups %ymm2, -224(%rdi,%rdx)
    vmovups %ymm3, -192(%rdi,%rdx)
    vmovups %ymm1, -160(%rdi,%rdx)
    vmovups %ymm0, -128(%rdi,%rdx)
    vmovups -96(%rax,%rdx), %ymm0
    vmovups -64(%rax,%rdx), %ymm1
    vmovups -32(%rax,%rdx), %ymm2
    vmovups (%rax,%rdx), %ymm3
    vsubps %ymm15, %ymm0, %ymm0
    vsubps %ymm15, %ymm1, %ymm1
    vsubps %ymm15, %ymm2, %ymm2
    vsubps %ymm15, %ymm3, %ymm3
    vmovaps stack, %ymm4
    vminps %ymm0, %ymm4, %ymm0
    vminps %ymm1, %ymm4, %ymm1
    vminps %ymm2, %ymm4, %ymm5
    vminps %ymm3, %ymm4, %ymm3
    vmovaps %ymm14, %ymm4
    vmovaps stack, %ymm8
    vmaxps %ymm0, %ymm8, %ymm2
    vmaxps %ymm1, %ymm8, %ymm7
    vmaxps %ymm5, %ymm8, %ymm6
    vmaxps %ymm3, %ymm8, %ymm3
    vmovaps stack, %ymm0
    vmovaps %ymm0, %ymm5
    vfmadd213ps %ymm14, %ymm2, %ymm5
    vmovaps %ymm0, %ymm14
    vfmadd213ps %ymm4, %ymm7, %ymm14
    vmovaps %ymm0, %ymm1
    vfmadd213ps %ymm4, %ymm6, %ymm1
    vfmadd213ps %ymm4, %ymm3, %ymm0
    vsubps %ymm4, %ymm5, %ymm8
    vsubps %ymm4, %ymm14, %ymm9
    vsubps %ymm4, %ymm1, %ymm10
    vsubps %ymm4, %ymm0, %ymm11
    vmovaps stack, %ymm12
    vfmadd231ps %ymm12, %ymm8, %ymm2
    vfmadd231ps %ymm12, %ymm9, %ymm7
    vfmadd231ps %ymm12, %ymm10, %ymm6
    vfmadd231ps %ymm12, %ymm11, %ymm3
    vmovaps stack, %ymm12
    vfmadd231ps %ymm8, %ymm12, %ymm2
    vfmadd231ps %ymm9, %ymm12, %ymm7
    vfmadd231ps %ymm10, %ymm12, %ymm6
    vfmadd231ps %ymm11, %ymm12, %ymm3
    vmovaps stack, %ymm11
    vmovaps %ymm11, %ymm8
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm2, %ymm8
    vmovaps %ymm11, %ymm9
    vfmadd213ps %ymm12, %ymm7, %ymm9
    vmovaps %ymm11, %ymm10
    vfmadd213ps %ymm12, %ymm6, %ymm10
    vfmadd213ps %ymm12, %ymm3, %ymm11
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm2, %ymm8
    vfmadd213ps %ymm12, %ymm7, %ymm9
    vfmadd213ps %ymm12, %ymm6, %ymm10
    vfmadd213ps %ymm12, %ymm3, %ymm11
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm2, %ymm8
    vfmadd213ps %ymm12, %ymm7, %ymm9
    vfmadd213ps %ymm12, %ymm6, %ymm10
    vfmadd213ps %ymm12, %ymm3, %ymm11
    vmovaps stack, %ymm12
    vfmadd213ps %ymm12, %ymm2, %ymm8
    vfmadd213ps %ymm12, %ymm7, %ymm9
    vfmadd213ps %ymm12, %ymm6, %ymm10
    vfmadd213ps %ymm12, %ymm3, %ymm11
    vfmadd213ps %ymm13, %ymm2, %ymm8
    vfmadd213ps %ymm13, %ymm7, %ymm9
    vfmadd213ps %ymm13, %ymm6, %ymm10
    vfmadd213ps %ymm13, %ymm3, %ymm11
    vfmadd213ps %ymm13, %ymm2, %ymm8
    vfmadd213ps %ymm13, %ymm7, %ymm9
    vfmadd213ps %ymm13, %ymm6, %ymm10
    vfmadd213ps %ymm13, %ymm3, %ymm11
    vpsrld $1, %ymm5, %ymm2
    vpsrld $1, %ymm14, %ymm3
    vpsrld $1, %ymm1, %ymm6
    vpsrld $1, %ymm0, %ymm7
    vpslld $23, %ymm2, %ymm12
    vmulps %ymm12, %ymm8, %ymm8
    vpslld $23, %ymm3, %ymm12
    vmulps %ymm12, %ymm9, %ymm9
    vpslld $23, %ymm6, %ymm12
    vmulps %ymm12, %ymm10, %ymm10
    vpslld $23, %ymm7, %ymm12
    vmulps %ymm12, %ymm11, %ymm11
    vpsubd %ymm2, %ymm5, %ymm2
    vpsubd %ymm3, %ymm14, %ymm3
    vpsubd %ymm6, %ymm1, %ymm1
    vpsubd %ymm7, %ymm0, %ymm0
    vpslld $23, %ymm2, %ymm2
    vmulps %ymm2, %ymm8, %ymm2
    vpslld $23, %ymm3, %ymm3
    vmulps %ymm3, %ymm9, %ymm3
    vpslld $23, %ymm1, %ymm1
    vmulps %ymm1, %ymm10, %ymm1
    vpslld $23, %ymm0, %ymm0
    vmulps %ymm0, %ymm11, %ymm0
    vmovups %ymm2, -96(%rdi,%rdx)
    vmovups %ymm3, -64(%rdi,%rdx)
    vmovups %ymm1, -32(%rdi,%rdx)
    vmovups %ymm0, (%rdi,%rdx)
    incq %rsi
    addq $256, %rdx
    cmpq $16, %rsi
    jl loop
