loop:
    vmovups -448(%rax,%rsi), %zmm21
    vmovups -384(%rax,%rsi), %zmm22
    vmovups -320(%rax,%rsi), %zmm23
    vmovups -256(%rax,%rsi), %zmm24
    vsubps %zmm20, %zmm21, %zmm21
    vsubps %zmm20, %zmm22, %zmm22
    vsubps %zmm20, %zmm23, %zmm23
    vsubps %zmm20, %zmm24, %zmm24
    vminps %zmm21, %zmm2, %zmm21
    vminps %zmm22, %zmm2, %zmm22
    vminps %zmm23, %zmm2, %zmm25
    vminps %zmm24, %zmm2, %zmm26
    vmaxps %zmm21, %zmm3, %zmm24
    vmaxps %zmm22, %zmm3, %zmm23
    vmaxps %zmm25, %zmm3, %zmm22
    vmaxps %zmm26, %zmm3, %zmm21
    vmovaps %zmm5, %zmm25
    vfmadd213ps %zmm4, %zmm24, %zmm25
    vmovaps %zmm5, %zmm26
    vfmadd213ps %zmm4, %zmm23, %zmm26
    vmovaps %zmm5, %zmm27
    vfmadd213ps %zmm4, %zmm22, %zmm27
    vmovaps %zmm5, %zmm28
    vfmadd213ps %zmm4, %zmm21, %zmm28
    vsubps %zmm4, %zmm25, %zmm25
    vsubps %zmm4, %zmm26, %zmm26
    vsubps %zmm4, %zmm27, %zmm27
    vsubps %zmm4, %zmm28, %zmm28
    vfmadd231ps %zmm6, %zmm25, %zmm24
    vfmadd231ps %zmm6, %zmm26, %zmm23
    vfmadd231ps %zmm6, %zmm27, %zmm22
    vfmadd231ps %zmm6, %zmm28, %zmm21
    vfmadd231ps %zmm7, %zmm25, %zmm24
    vfmadd231ps %zmm7, %zmm26, %zmm23
    vfmadd231ps %zmm7, %zmm27, %zmm22
    vfmadd231ps %zmm7, %zmm28, %zmm21
    vmovaps %zmm14, %zmm29
    vfmadd213ps %zmm8, %zmm24, %zmm29
    vmovaps %zmm14, %zmm30
    vfmadd213ps %zmm8, %zmm23, %zmm30
    vmovaps %zmm14, %zmm31
    vfmadd213ps %zmm8, %zmm22, %zmm31
    vmovaps %zmm14, %zmm9
    vfmadd213ps %zmm8, %zmm21, %zmm9
    vfmadd213ps %zmm10, %zmm24, %zmm29
    vfmadd213ps %zmm10, %zmm23, %zmm30
    vfmadd213ps %zmm10, %zmm22, %zmm31
    vfmadd213ps %zmm10, %zmm21, %zmm9
    vfmadd213ps %zmm11, %zmm24, %zmm29
    vfmadd213ps %zmm11, %zmm23, %zmm30
    vfmadd213ps %zmm11, %zmm22, %zmm31
    vfmadd213ps %zmm11, %zmm21, %zmm9
    vfmadd213ps %zmm12, %zmm24, %zmm29
    vfmadd213ps %zmm12, %zmm23, %zmm30
    vfmadd213ps %zmm12, %zmm22, %zmm31
    vfmadd213ps %zmm12, %zmm21, %zmm9
    vfmadd213ps %zmm13, %zmm24, %zmm29
    vfmadd213ps %zmm13, %zmm23, %zmm30
    vfmadd213ps %zmm13, %zmm22, %zmm31
    vfmadd213ps %zmm13, %zmm21, %zmm9
    vfmadd213ps %zmm13, %zmm24, %zmm29
    vfmadd213ps %zmm13, %zmm23, %zmm30
    vfmadd213ps %zmm13, %zmm22, %zmm31
    vfmadd213ps %zmm13, %zmm21, %zmm9
    vscalefps %zmm25, %zmm29, %zmm21
    vscalefps %zmm26, %zmm30, %zmm22
    vscalefps %zmm27, %zmm31, %zmm23
    vscalefps %zmm28, %zmm9, %zmm9
    vmovups %zmm21, -448(%rdi,%rsi)
    vmovups %zmm22, -384(%rdi,%rsi)
    vmovups %zmm23, -320(%rdi,%rsi)
    vmovups %zmm9, -256(%rdi,%rsi)
    vmovups -192(%rax,%rsi), %zmm9
    vmovups -128(%rax,%rsi), %zmm21
    vmovups -64(%rax,%rsi), %zmm22
    vmovups (%rax,%rsi), %zmm23
    vsubps %zmm20, %zmm9, %zmm9
    vsubps %zmm20, %zmm21, %zmm21
    vsubps %zmm20, %zmm22, %zmm22
    vsubps %zmm20, %zmm23, %zmm23
    vminps %zmm9, %zmm2, %zmm9
    vminps %zmm21, %zmm2, %zmm21
    vminps %zmm22, %zmm2, %zmm22
    vminps %zmm23, %zmm2, %zmm25
    vmaxps %zmm9, %zmm3, %zmm24
    vmaxps %zmm21, %zmm3, %zmm23
    vmaxps %zmm22, %zmm3, %zmm22
    vmaxps %zmm25, %zmm3, %zmm21
    vmovaps %zmm5, %zmm9
    vfmadd213ps %zmm4, %zmm24, %zmm9
    vmovaps %zmm5, %zmm25
    vfmadd213ps %zmm4, %zmm23, %zmm25
    vmovaps %zmm5, %zmm28
    vfmadd213ps %zmm4, %zmm22, %zmm28
    vmovaps %zmm5, %zmm29
    vfmadd213ps %zmm4, %zmm21, %zmm29
    vsubps %zmm4, %zmm9, %zmm26
    vsubps %zmm4, %zmm25, %zmm27
    vsubps %zmm4, %zmm28, %zmm28
    vsubps %zmm4, %zmm29, %zmm25
    vfmadd231ps %zmm6, %zmm26, %zmm24
    vfmadd231ps %zmm6, %zmm27, %zmm23
    vfmadd231ps %zmm6, %zmm28, %zmm22
    vfmadd231ps %zmm6, %zmm25, %zmm21
    vfmadd231ps %zmm7, %zmm26, %zmm24
    vfmadd231ps %zmm7, %zmm27, %zmm23
    vfmadd231ps %zmm7, %zmm28, %zmm22
    vfmadd231ps %zmm7, %zmm25, %zmm21
    vmovaps %zmm14, %zmm9
    vfmadd213ps %zmm8, %zmm24, %zmm9
    vmovaps %zmm14, %zmm29
    vfmadd213ps %zmm8, %zmm23, %zmm29
    vmovaps %zmm14, %zmm30
    vfmadd213ps %zmm8, %zmm22, %zmm30
    vmovaps %zmm14, %zmm31
    vfmadd213ps %zmm8, %zmm21, %zmm31
    vfmadd213ps %zmm10, %zmm24, %zmm9
    vfmadd213ps %zmm10, %zmm23, %zmm29
    vfmadd213ps %zmm10, %zmm22, %zmm30
    vfmadd213ps %zmm10, %zmm21, %zmm31
    vfmadd213ps %zmm11, %zmm24, %zmm9
    vfmadd213ps %zmm11, %zmm23, %zmm29
    vfmadd213ps %zmm11, %zmm22, %zmm30
    vfmadd213ps %zmm11, %zmm21, %zmm31
    vfmadd213ps %zmm12, %zmm24, %zmm9
    vfmadd213ps %zmm12, %zmm23, %zmm29
    vfmadd213ps %zmm12, %zmm22, %zmm30
    vfmadd213ps %zmm12, %zmm21, %zmm31
    vfmadd213ps %zmm13, %zmm24, %zmm9
    vfmadd213ps %zmm13, %zmm23, %zmm29
    vfmadd213ps %zmm13, %zmm22, %zmm30
    vfmadd213ps %zmm13, %zmm21, %zmm31
    vfmadd213ps %zmm13, %zmm24, %zmm9
    vfmadd213ps %zmm13, %zmm23, %zmm29
    vfmadd213ps %zmm13, %zmm22, %zmm30
    vfmadd213ps %zmm13, %zmm21, %zmm31
    vscalefps %zmm26, %zmm9, %zmm9
    vscalefps %zmm27, %zmm29, %zmm21
    vscalefps %zmm28, %zmm30, %zmm22
    vmovups %zmm9, -192(%rdi,%rsi)
    vmovups %zmm21, -128(%rdi,%rsi)
    vmovups %zmm22, -64(%rdi,%rsi)
    vscalefps %zmm25, %zmm31, %zmm9
    vmovups %zmm9, (%rdi,%rsi)
    incq %r8
    addq $512, %rsi
    cmpq $8, %r8
    jl loop
