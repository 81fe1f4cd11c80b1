loop:
    vmovups -192(%rax,%rdx), %zmm16
    vmovups -128(%rax,%rdx), %zmm17
    vmovups -64(%rax,%rdx), %zmm18
    vmovups (%rax,%rdx), %zmm19
    vmaxps %zmm16, %zmm0, %zmm20
    vmaxps %zmm17, %zmm0, %zmm21
    vmaxps %zmm18, %zmm0, %zmm22
    vmaxps %zmm19, %zmm0, %zmm23
    vmaxps %zmm21, %zmm20, %zmm21
    vcmpunordps %zmm20, %zmm20, %k1
    vmovaps %zmm20, %zmm21 {%k1}
    vmaxps %zmm22, %zmm21, %zmm20
    vcmpunordps %zmm21, %zmm21, %k1
    vmovaps %zmm21, %zmm20 {%k1}
    vmaxps %zmm23, %zmm20, %zmm21
    vcmpunordps %zmm20, %zmm20, %k1
    vmovaps %zmm20, %zmm21 {%k1}
    vextractf64x4 $1, %zmm21, %ymm20
    vmaxps %ymm20, %ymm21, %ymm20
    vcmpunordps %ymm21, %ymm21, %k1
    vmovaps %ymm21, %ymm20 {%k1}
    vextractf32x4 $1, %ymm20, %xmm21
    vmaxps %xmm21, %xmm20, %xmm21
    vcmpunordps %xmm20, %xmm20, %k1
    vmovaps %xmm20, %xmm21 {%k1}
    vshufpd $1, %xmm21, %xmm21, %xmm20
    vmaxps %xmm20, %xmm21, %xmm20
    vcmpunordps %xmm21, %xmm21, %k1
    vmovaps %xmm21, %xmm20 {%k1}
    vmovshdup %xmm20, %xmm21
    vmaxss %xmm21, %xmm20, %xmm21
    vcmpunordss %xmm20, %xmm20, %k1
    vmovss %xmm20, %xmm21, %xmm21 {%k1}
    vmaxss %xmm21, %xmm1, %xmm20
    vbroadcastss %xmm20, %zmm20
    vsubps %zmm20, %zmm16, %zmm16
    vsubps %zmm20, %zmm17, %zmm17
    vsubps %zmm20, %zmm18, %zmm18
    vsubps %zmm20, %zmm19, %zmm19
    vminps %zmm16, %zmm2, %zmm16
    vminps %zmm17, %zmm2, %zmm17
    vminps %zmm18, %zmm2, %zmm20
    vminps %zmm19, %zmm2, %zmm21
    vmaxps %zmm16, %zmm3, %zmm19
    vmaxps %zmm17, %zmm3, %zmm18
    vmaxps %zmm20, %zmm3, %zmm17
    vmaxps %zmm21, %zmm3, %zmm16
    vmovaps %zmm5, %zmm20
    vfmadd213ps %zmm4, %zmm19, %zmm20
    vmovaps %zmm5, %zmm21
    vfmadd213ps %zmm4, %zmm18, %zmm21
    vmovaps %zmm5, %zmm22
    vfmadd213ps %zmm4, %zmm17, %zmm22
    vmovaps %zmm5, %zmm23
    vfmadd213ps %zmm4, %zmm16, %zmm23
    vsubps %zmm4, %zmm20, %zmm20
    vsubps %zmm4, %zmm21, %zmm21
    vsubps %zmm4, %zmm22, %zmm22
    vsubps %zmm4, %zmm23, %zmm23
    vfmadd231ps %zmm6, %zmm20, %zmm19
    vfmadd231ps %zmm6, %zmm21, %zmm18
    vfmadd231ps %zmm6, %zmm22, %zmm17
    vfmadd231ps %zmm6, %zmm23, %zmm16
    vfmadd231ps %zmm7, %zmm20, %zmm19
    vfmadd231ps %zmm7, %zmm21, %zmm18
    vfmadd231ps %zmm7, %zmm22, %zmm17
    vfmadd231ps %zmm7, %zmm23, %zmm16
    vmovaps %zmm9, %zmm24
    vfmadd213ps %zmm8, %zmm19, %zmm24
    vmovaps %zmm9, %zmm25
    vfmadd213ps %zmm8, %zmm18, %zmm25
    vmovaps %zmm9, %zmm26
    vfmadd213ps %zmm8, %zmm17, %zmm26
    vmovaps %zmm9, %zmm27
    vfmadd213ps %zmm8, %zmm16, %zmm27
    vfmadd213ps %zmm10, %zmm19, %zmm24
    vfmadd213ps %zmm10, %zmm18, %zmm25
    vfmadd213ps %zmm10, %zmm17, %zmm26
    vfmadd213ps %zmm10, %zmm16, %zmm27
    vfmadd213ps %zmm11, %zmm19, %zmm24
    vfmadd213ps %zmm11, %zmm18, %zmm25
    vfmadd213ps %zmm11, %zmm17, %zmm26
    vfmadd213ps %zmm11, %zmm16, %zmm27
    vfmadd213ps %zmm12, %zmm19, %zmm24
    vfmadd213ps %zmm12, %zmm18, %zmm25
    vfmadd213ps %zmm12, %zmm17, %zmm26
    vfmadd213ps %zmm12, %zmm16, %zmm27
    vfmadd213ps %zmm13, %zmm19, %zmm24
    vfmadd213ps %zmm13, %zmm18, %zmm25
    vfmadd213ps %zmm13, %zmm17, %zmm26
    vfmadd213ps %zmm13, %zmm16, %zmm27
    vfmadd213ps %zmm13, %zmm19, %zmm24
    vfmadd213ps %zmm13, %zmm18, %zmm25
    vfmadd213ps %zmm13, %zmm17, %zmm26
    vfmadd213ps %zmm13, %zmm16, %zmm27
    vscalefps %zmm20, %zmm24, %zmm16
    vscalefps %zmm21, %zmm25, %zmm17
    vscalefps %zmm22, %zmm26, %zmm18
    vscalefps %zmm23, %zmm27, %zmm19
    vaddps %zmm14, %zmm16, %zmm20
    vaddps %zmm14, %zmm17, %zmm21
    vaddps %zmm21, %zmm20, %zmm20
    vaddps %zmm14, %zmm18, %zmm21
    vaddps %zmm21, %zmm20, %zmm20
    vaddps %zmm14, %zmm19, %zmm21
    vaddps %zmm21, %zmm20, %zmm20
    vextractf64x4 $1, %zmm20, %ymm21
    vaddps %ymm21, %ymm20, %ymm20
    vextractf32x4 $1, %ymm20, %xmm21
    vaddps %xmm21, %xmm20, %xmm20
    vshufpd $1, %xmm20, %xmm20, %xmm21
    vaddps %xmm21, %xmm20, %xmm20
    vmovshdup %xmm20, %xmm21
    vaddss %xmm21, %xmm20, %xmm20
    vaddss %xmm15, %xmm20, %xmm20
    vbroadcastss %xmm20, %zmm20
    vdivps %zmm20, %zmm16, %zmm16
    vmovups %zmm16, -192(%rcx,%rdx)
    vdivps %zmm20, %zmm17, %zmm16
    vmovups %zmm16, -128(%rcx,%rdx)
    vdivps %zmm20, %zmm18, %zmm16
    vmovups %zmm16, -64(%rcx,%rdx)
    vdivps %zmm20, %zmm19, %zmm16
    vmovups %zmm16, (%rcx,%rdx)
    incq %rsi
    addq $256, %rdx
    cmpq $64, %rsi
    jl loop
