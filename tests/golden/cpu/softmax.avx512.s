loop:
    vmovups -448(%rax,%rsi), %zmm20
    vmovups -384(%rax,%rsi), %zmm21
    vmovups -320(%rax,%rsi), %zmm22
    vmovups -256(%rax,%rsi), %zmm23
    vsubps %zmm19, %zmm20, %zmm20
    vsubps %zmm19, %zmm21, %zmm21
    vsubps %zmm19, %zmm22, %zmm24
    vsubps %zmm19, %zmm23, %zmm25
    vmaxps %zmm20, %zmm2, %zmm23
    vmaxps %zmm21, %zmm2, %zmm22
    vmaxps %zmm24, %zmm2, %zmm21
    vmaxps %zmm25, %zmm2, %zmm20
    vmovaps %zmm4, %zmm24
    vfmadd213ps %zmm3, %zmm23, %zmm24
    vmovaps %zmm4, %zmm25
    vfmadd213ps %zmm3, %zmm22, %zmm25
    vmovaps %zmm4, %zmm26
    vfmadd213ps %zmm3, %zmm21, %zmm26
    vmovaps %zmm4, %zmm27
    vfmadd213ps %zmm3, %zmm20, %zmm27
    vsubps %zmm3, %zmm24, %zmm24
    vsubps %zmm3, %zmm25, %zmm25
    vsubps %zmm3, %zmm26, %zmm26
    vsubps %zmm3, %zmm27, %zmm27
    vfmadd231ps %zmm5, %zmm24, %zmm23
    vfmadd231ps %zmm5, %zmm25, %zmm22
    vfmadd231ps %zmm5, %zmm26, %zmm21
    vfmadd231ps %zmm5, %zmm27, %zmm20
    vfmadd231ps %zmm6, %zmm24, %zmm23
    vfmadd231ps %zmm6, %zmm25, %zmm22
    vfmadd231ps %zmm6, %zmm26, %zmm21
    vfmadd231ps %zmm6, %zmm27, %zmm20
    vmovaps %zmm8, %zmm28
    vfmadd213ps %zmm7, %zmm23, %zmm28
    vmovaps %zmm8, %zmm29
    vfmadd213ps %zmm7, %zmm22, %zmm29
    vmovaps %zmm8, %zmm30
    vfmadd213ps %zmm7, %zmm21, %zmm30
    vmovaps %zmm8, %zmm31
    vfmadd213ps %zmm7, %zmm20, %zmm31
    vfmadd213ps %zmm9, %zmm23, %zmm28
    vfmadd213ps %zmm9, %zmm22, %zmm29
    vfmadd213ps %zmm9, %zmm21, %zmm30
    vfmadd213ps %zmm9, %zmm20, %zmm31
    vfmadd213ps %zmm10, %zmm23, %zmm28
    vfmadd213ps %zmm10, %zmm22, %zmm29
    vfmadd213ps %zmm10, %zmm21, %zmm30
    vfmadd213ps %zmm10, %zmm20, %zmm31
    vfmadd213ps %zmm11, %zmm23, %zmm28
    vfmadd213ps %zmm11, %zmm22, %zmm29
    vfmadd213ps %zmm11, %zmm21, %zmm30
    vfmadd213ps %zmm11, %zmm20, %zmm31
    vfmadd213ps %zmm12, %zmm23, %zmm28
    vfmadd213ps %zmm12, %zmm22, %zmm29
    vfmadd213ps %zmm12, %zmm21, %zmm30
    vfmadd213ps %zmm12, %zmm20, %zmm31
    vfmadd213ps %zmm12, %zmm23, %zmm28
    vfmadd213ps %zmm12, %zmm22, %zmm29
    vfmadd213ps %zmm12, %zmm21, %zmm30
    vfmadd213ps %zmm12, %zmm20, %zmm31
    vscalefps %zmm24, %zmm28, %zmm20
    vscalefps %zmm25, %zmm29, %zmm21
    vscalefps %zmm26, %zmm30, %zmm22
    vscalefps %zmm27, %zmm31, %zmm23
    vmovups %zmm20, -448(%rdi,%rsi)
    vmovups %zmm21, -384(%rdi,%rsi)
    vmovups %zmm22, -320(%rdi,%rsi)
    vmovups %zmm23, -256(%rdi,%rsi)
    vmovups -192(%rax,%rsi), %zmm20
    vmovups -128(%rax,%rsi), %zmm21
    vmovups -64(%rax,%rsi), %zmm22
    vmovups (%rax,%rsi), %zmm23
    vsubps %zmm19, %zmm20, %zmm20
    vsubps %zmm19, %zmm21, %zmm21
    vsubps %zmm19, %zmm22, %zmm24
    vsubps %zmm19, %zmm23, %zmm25
    vmaxps %zmm20, %zmm2, %zmm23
    vmaxps %zmm21, %zmm2, %zmm22
    vmaxps %zmm24, %zmm2, %zmm21
    vmaxps %zmm25, %zmm2, %zmm20
    vmovaps %zmm4, %zmm24
    vfmadd213ps %zmm3, %zmm23, %zmm24
    vmovaps %zmm4, %zmm26
    vfmadd213ps %zmm3, %zmm22, %zmm26
    vmovaps %zmm4, %zmm27
    vfmadd213ps %zmm3, %zmm21, %zmm27
    vmovaps %zmm4, %zmm28
    vfmadd213ps %zmm3, %zmm20, %zmm28
    vsubps %zmm3, %zmm24, %zmm25
    vsubps %zmm3, %zmm26, %zmm26
    vsubps %zmm3, %zmm27, %zmm27
    vsubps %zmm3, %zmm28, %zmm24
    vfmadd231ps %zmm5, %zmm25, %zmm23
    vfmadd231ps %zmm5, %zmm26, %zmm22
    vfmadd231ps %zmm5, %zmm27, %zmm21
    vfmadd231ps %zmm5, %zmm24, %zmm20
    vfmadd231ps %zmm6, %zmm25, %zmm23
    vfmadd231ps %zmm6, %zmm26, %zmm22
    vfmadd231ps %zmm6, %zmm27, %zmm21
    vfmadd231ps %zmm6, %zmm24, %zmm20
    vmovaps %zmm8, %zmm28
    vfmadd213ps %zmm7, %zmm23, %zmm28
    vmovaps %zmm8, %zmm29
    vfmadd213ps %zmm7, %zmm22, %zmm29
    vmovaps %zmm8, %zmm30
    vfmadd213ps %zmm7, %zmm21, %zmm30
    vmovaps %zmm8, %zmm31
    vfmadd213ps %zmm7, %zmm20, %zmm31
    vfmadd213ps %zmm9, %zmm23, %zmm28
    vfmadd213ps %zmm9, %zmm22, %zmm29
    vfmadd213ps %zmm9, %zmm21, %zmm30
    vfmadd213ps %zmm9, %zmm20, %zmm31
    vfmadd213ps %zmm10, %zmm23, %zmm28
    vfmadd213ps %zmm10, %zmm22, %zmm29
    vfmadd213ps %zmm10, %zmm21, %zmm30
    vfmadd213ps %zmm10, %zmm20, %zmm31
    vfmadd213ps %zmm11, %zmm23, %zmm28
    vfmadd213ps %zmm11, %zmm22, %zmm29
    vfmadd213ps %zmm11, %zmm21, %zmm30
    vfmadd213ps %zmm11, %zmm20, %zmm31
    vfmadd213ps %zmm12, %zmm23, %zmm28
    vfmadd213ps %zmm12, %zmm22, %zmm29
    vfmadd213ps %zmm12, %zmm21, %zmm30
    vfmadd213ps %zmm12, %zmm20, %zmm31
    vfmadd213ps %zmm12, %zmm23, %zmm28
    vfmadd213ps %zmm12, %zmm22, %zmm29
    vfmadd213ps %zmm12, %zmm21, %zmm30
    vfmadd213ps %zmm12, %zmm20, %zmm31
    vscalefps %zmm25, %zmm28, %zmm20
    vscalefps %zmm26, %zmm29, %zmm21
    vscalefps %zmm27, %zmm30, %zmm22
    vmovups %zmm20, -192(%rdi,%rsi)
    vmovups %zmm21, -128(%rdi,%rsi)
    vmovups %zmm22, -64(%rdi,%rsi)
    vscalefps %zmm24, %zmm31, %zmm20
    vmovups %zmm20, (%rdi,%rsi)
    incq %r8
    addq $512, %rsi
    cmpq $8, %r8
    jl loop
