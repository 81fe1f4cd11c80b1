loop:
    vmovups -448(%rax,%rsi), %zmm17
    vmovups -384(%rax,%rsi), %zmm18
    vmovups -320(%rax,%rsi), %zmm19
    vmovups -256(%rax,%rsi), %zmm20
    vsubps %zmm16, %zmm17, %zmm17
    vsubps %zmm16, %zmm18, %zmm18
    vsubps %zmm16, %zmm19, %zmm19
    vsubps %zmm16, %zmm20, %zmm20
    vcmpnltps %zmm2, %zmm17, %k1
    vcmpnltps %zmm2, %zmm18, %k2
    vcmpnltps %zmm2, %zmm19, %k3
    vcmpnltps %zmm2, %zmm20, %k4
    vmaxps %zmm17, %zmm2, %zmm17
    vmaxps %zmm18, %zmm2, %zmm18
    vmaxps %zmm19, %zmm2, %zmm19
    vmaxps %zmm20, %zmm2, %zmm20
    vmovaps %zmm4, %zmm21
    vfmadd213ps %zmm3, %zmm17, %zmm21
    vmovaps %zmm4, %zmm22
    vfmadd213ps %zmm3, %zmm18, %zmm22
    vmovaps %zmm4, %zmm23
    vfmadd213ps %zmm3, %zmm19, %zmm23
    vmovaps %zmm4, %zmm24
    vfmadd213ps %zmm3, %zmm20, %zmm24
    vsubps %zmm3, %zmm21, %zmm25
    vsubps %zmm3, %zmm22, %zmm26
    vsubps %zmm3, %zmm23, %zmm27
    vsubps %zmm3, %zmm24, %zmm28
    vfmadd231ps %zmm5, %zmm25, %zmm17
    vfmadd231ps %zmm5, %zmm26, %zmm18
    vfmadd231ps %zmm5, %zmm27, %zmm19
    vfmadd231ps %zmm5, %zmm28, %zmm20
    vfmadd231ps %zmm6, %zmm25, %zmm17
    vfmadd231ps %zmm6, %zmm26, %zmm18
    vfmadd231ps %zmm6, %zmm27, %zmm19
    vfmadd231ps %zmm6, %zmm28, %zmm20
    vpermps %zmm7, %zmm21, %zmm21
    vpermps %zmm7, %zmm22, %zmm22
    vpermps %zmm7, %zmm23, %zmm23
    vpermps %zmm7, %zmm24, %zmm24
    vmovaps %zmm11, %zmm29
    vfmadd213ps %zmm8, %zmm17, %zmm29
    vmovaps %zmm11, %zmm30
    vfmadd213ps %zmm8, %zmm18, %zmm30
    vmovaps %zmm11, %zmm31
    vfmadd213ps %zmm8, %zmm19, %zmm31
    vmovaps %zmm11, %zmm9
    vfmadd213ps %zmm8, %zmm20, %zmm9
    vfmadd213ps %zmm10, %zmm17, %zmm29
    vfmadd213ps %zmm10, %zmm18, %zmm30
    vfmadd213ps %zmm10, %zmm19, %zmm31
    vfmadd213ps %zmm10, %zmm20, %zmm9
    vmulps %zmm21, %zmm17, %zmm17
    vmulps %zmm22, %zmm18, %zmm18
    vmulps %zmm23, %zmm19, %zmm19
    vmulps %zmm24, %zmm20, %zmm20
    vfmadd213ps %zmm21, %zmm29, %zmm17
    vfmadd213ps %zmm22, %zmm30, %zmm18
    vfmadd213ps %zmm23, %zmm31, %zmm19
    vfmadd213ps %zmm24, %zmm9, %zmm20
    vscalefps %zmm25, %zmm17, %zmm9 {%k1} {z}
    vscalefps %zmm26, %zmm18, %zmm17 {%k2} {z}
    vscalefps %zmm27, %zmm19, %zmm18 {%k3} {z}
    vscalefps %zmm28, %zmm20, %zmm19 {%k4} {z}
    vmovups %zmm9, -448(%rdi,%rsi)
    vmovups %zmm17, -384(%rdi,%rsi)
    vmovups %zmm18, -320(%rdi,%rsi)
    vmovups %zmm19, -256(%rdi,%rsi)
    vmovups -192(%rax,%rsi), %zmm9
    vmovups -128(%rax,%rsi), %zmm17
    vmovups -64(%rax,%rsi), %zmm18
    vmovups (%rax,%rsi), %zmm19
    vsubps %zmm16, %zmm9, %zmm9
    vsubps %zmm16, %zmm17, %zmm17
    vsubps %zmm16, %zmm18, %zmm18
    vsubps %zmm16, %zmm19, %zmm19
    vcmpnltps %zmm2, %zmm9, %k2
    vcmpnltps %zmm2, %zmm17, %k3
    vcmpnltps %zmm2, %zmm18, %k4
    vcmpnltps %zmm2, %zmm19, %k1
    vmaxps %zmm9, %zmm2, %zmm9
    vmaxps %zmm17, %zmm2, %zmm17
    vmaxps %zmm18, %zmm2, %zmm18
    vmaxps %zmm19, %zmm2, %zmm19
    vmovaps %zmm4, %zmm20
    vfmadd213ps %zmm3, %zmm9, %zmm20
    vmovaps %zmm4, %zmm21
    vfmadd213ps %zmm3, %zmm17, %zmm21
    vmovaps %zmm4, %zmm22
    vfmadd213ps %zmm3, %zmm18, %zmm22
    vmovaps %zmm4, %zmm23
    vfmadd213ps %zmm3, %zmm19, %zmm23
    vsubps %zmm3, %zmm20, %zmm24
    vsubps %zmm3, %zmm21, %zmm25
    vsubps %zmm3, %zmm22, %zmm26
    vsubps %zmm3, %zmm23, %zmm27
    vfmadd231ps %zmm5, %zmm24, %zmm9
    vfmadd231ps %zmm5, %zmm25, %zmm17
    vfmadd231ps %zmm5, %zmm26, %zmm18
    vfmadd231ps %zmm5, %zmm27, %zmm19
    vfmadd231ps %zmm6, %zmm24, %zmm9
    vfmadd231ps %zmm6, %zmm25, %zmm17
    vfmadd231ps %zmm6, %zmm26, %zmm18
    vfmadd231ps %zmm6, %zmm27, %zmm19
    vpermps %zmm7, %zmm20, %zmm20
    vpermps %zmm7, %zmm21, %zmm21
    vpermps %zmm7, %zmm22, %zmm22
    vpermps %zmm7, %zmm23, %zmm23
    vmovaps %zmm11, %zmm28
    vfmadd213ps %zmm8, %zmm9, %zmm28
    vmovaps %zmm11, %zmm29
    vfmadd213ps %zmm8, %zmm17, %zmm29
    vmovaps %zmm11, %zmm30
    vfmadd213ps %zmm8, %zmm18, %zmm30
    vmovaps %zmm11, %zmm31
    vfmadd213ps %zmm8, %zmm19, %zmm31
    vfmadd213ps %zmm10, %zmm9, %zmm28
    vfmadd213ps %zmm10, %zmm17, %zmm29
    vfmadd213ps %zmm10, %zmm18, %zmm30
    vfmadd213ps %zmm10, %zmm19, %zmm31
    vmulps %zmm20, %zmm9, %zmm9
    vmulps %zmm21, %zmm17, %zmm17
    vmulps %zmm22, %zmm18, %zmm18
    vmulps %zmm23, %zmm19, %zmm19
    vfmadd213ps %zmm20, %zmm28, %zmm9
    vfmadd213ps %zmm21, %zmm29, %zmm17
    vfmadd213ps %zmm22, %zmm30, %zmm18
    vfmadd213ps %zmm23, %zmm31, %zmm19
    vscalefps %zmm24, %zmm9, %zmm9 {%k2} {z}
    vscalefps %zmm25, %zmm17, %zmm17 {%k3} {z}
    vscalefps %zmm26, %zmm18, %zmm18 {%k4} {z}
    vmovups %zmm9, -192(%rdi,%rsi)
    vmovups %zmm17, -128(%rdi,%rsi)
    vmovups %zmm18, -64(%rdi,%rsi)
    vscalefps %zmm27, %zmm19, %zmm9 {%k1} {z}
    vmovups %zmm9, (%rdi,%rsi)
    incq %r8
    addq $512, %rsi
    cmpq $8, %r8
    jl loop
