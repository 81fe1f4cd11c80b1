loop:
    vmovups -192(%rax,%rdx), %zmm18
    vmovups -128(%rax,%rdx), %zmm20
    vmovups -64(%rax,%rdx), %zmm17
    vmovups (%rax,%rdx), %zmm16
    vmaxps %zmm18, %zmm0, %zmm19
    vmaxps %zmm20, %zmm0, %zmm21
    vmaxps %zmm17, %zmm0, %zmm22
    vmaxps %zmm16, %zmm0, %zmm23
    vmaxps %zmm21, %zmm19, %zmm21
    vcmpunordps %zmm19, %zmm19, %k1
    vmovaps %zmm19, %zmm21 {%k1}
    vmaxps %zmm22, %zmm21, %zmm19
    vcmpunordps %zmm21, %zmm21, %k1
    vmovaps %zmm21, %zmm19 {%k1}
    vmaxps %zmm23, %zmm19, %zmm21
    vcmpunordps %zmm19, %zmm19, %k1
    vmovaps %zmm19, %zmm21 {%k1}
    vextractf64x4 $1, %zmm21, %ymm19
    vmaxps %ymm19, %ymm21, %ymm19
    vcmpunordps %ymm21, %ymm21, %k1
    vmovaps %ymm21, %ymm19 {%k1}
    vextractf32x4 $1, %ymm19, %xmm21
    vmaxps %xmm21, %xmm19, %xmm21
    vcmpunordps %xmm19, %xmm19, %k1
    vmovaps %xmm19, %xmm21 {%k1}
    vshufpd $1, %xmm21, %xmm21, %xmm19
    vmaxps %xmm19, %xmm21, %xmm19
    vcmpunordps %xmm21, %xmm21, %k1
    vmovaps %xmm21, %xmm19 {%k1}
    vmovshdup %xmm19, %xmm21
    vmaxss %xmm21, %xmm19, %xmm21
    vcmpunordss %xmm19, %xmm19, %k1
    vmovss %xmm19, %xmm21, %xmm21 {%k1}
    vmaxss %xmm21, %xmm1, %xmm19
    vbroadcastss %xmm19, %zmm19
    vsubps %zmm19, %zmm18, %zmm18
    vminps %zmm18, %zmm2, %zmm18
    vmaxps %zmm18, %zmm3, %zmm18
    vmovaps %zmm5, %zmm21
    vfmadd213ps %zmm4, %zmm18, %zmm21
    vsubps %zmm4, %zmm21, %zmm21
    vfmadd231ps %zmm6, %zmm21, %zmm18
    vfmadd231ps %zmm7, %zmm21, %zmm18
    vmovaps %zmm9, %zmm22
    vfmadd213ps %zmm8, %zmm18, %zmm22
    vfmadd213ps %zmm10, %zmm18, %zmm22
    vfmadd213ps %zmm11, %zmm18, %zmm22
    vfmadd213ps %zmm12, %zmm18, %zmm22
    vfmadd213ps %zmm13, %zmm18, %zmm22
    vfmadd213ps %zmm13, %zmm18, %zmm22
    vscalefps %zmm21, %zmm22, %zmm18
    vsubps %zmm19, %zmm20, %zmm20
    vminps %zmm20, %zmm2, %zmm20
    vmaxps %zmm20, %zmm3, %zmm20
    vmovaps %zmm5, %zmm21
    vfmadd213ps %zmm4, %zmm20, %zmm21
    vsubps %zmm4, %zmm21, %zmm21
    vfmadd231ps %zmm6, %zmm21, %zmm20
    vfmadd231ps %zmm7, %zmm21, %zmm20
    vmovaps %zmm9, %zmm22
    vfmadd213ps %zmm8, %zmm20, %zmm22
    vfmadd213ps %zmm10, %zmm20, %zmm22
    vfmadd213ps %zmm11, %zmm20, %zmm22
    vfmadd213ps %zmm12, %zmm20, %zmm22
    vfmadd213ps %zmm13, %zmm20, %zmm22
    vfmadd213ps %zmm13, %zmm20, %zmm22
    vscalefps %zmm21, %zmm22, %zmm20
    vsubps %zmm19, %zmm17, %zmm17
    vminps %zmm17, %zmm2, %zmm17
    vmaxps %zmm17, %zmm3, %zmm17
    vmovaps %zmm5, %zmm21
    vfmadd213ps %zmm4, %zmm17, %zmm21
    vsubps %zmm4, %zmm21, %zmm21
    vfmadd231ps %zmm6, %zmm21, %zmm17
    vfmadd231ps %zmm7, %zmm21, %zmm17
    vmovaps %zmm9, %zmm22
    vfmadd213ps %zmm8, %zmm17, %zmm22
    vfmadd213ps %zmm10, %zmm17, %zmm22
    vfmadd213ps %zmm11, %zmm17, %zmm22
    vfmadd213ps %zmm12, %zmm17, %zmm22
    vfmadd213ps %zmm13, %zmm17, %zmm22
    vfmadd213ps %zmm13, %zmm17, %zmm22
    vscalefps %zmm21, %zmm22, %zmm17
    vsubps %zmm19, %zmm16, %zmm16
    vminps %zmm16, %zmm2, %zmm16
    vmaxps %zmm16, %zmm3, %zmm16
    vmovaps %zmm5, %zmm19
    vfmadd213ps %zmm4, %zmm16, %zmm19
    vsubps %zmm4, %zmm19, %zmm19
    vfmadd231ps %zmm6, %zmm19, %zmm16
    vfmadd231ps %zmm7, %zmm19, %zmm16
    vmovaps %zmm9, %zmm21
    vfmadd213ps %zmm8, %zmm16, %zmm21
    vfmadd213ps %zmm10, %zmm16, %zmm21
    vfmadd213ps %zmm11, %zmm16, %zmm21
    vfmadd213ps %zmm12, %zmm16, %zmm21
    vfmadd213ps %zmm13, %zmm16, %zmm21
    vfmadd213ps %zmm13, %zmm16, %zmm21
    vscalefps %zmm19, %zmm21, %zmm16
    vaddps %zmm14, %zmm18, %zmm19
    vaddps %zmm14, %zmm20, %zmm21
    vaddps %zmm21, %zmm19, %zmm19
    vaddps %zmm14, %zmm17, %zmm21
    vaddps %zmm21, %zmm19, %zmm19
    vaddps %zmm14, %zmm16, %zmm21
    vaddps %zmm21, %zmm19, %zmm19
    vextractf64x4 $1, %zmm19, %ymm21
    vaddps %ymm21, %ymm19, %ymm19
    vextractf32x4 $1, %ymm19, %xmm21
    vaddps %xmm21, %xmm19, %xmm19
    vshufpd $1, %xmm19, %xmm19, %xmm21
    vaddps %xmm21, %xmm19, %xmm19
    vmovshdup %xmm19, %xmm21
    vaddss %xmm21, %xmm19, %xmm19
    vaddss %xmm15, %xmm19, %xmm19
    vbroadcastss %xmm19, %zmm19
    vdivps %zmm19, %zmm18, %zmm18
    vmovups %zmm18, -192(%rcx,%rdx)
    vdivps %zmm19, %zmm20, %zmm18
    vmovups %zmm18, -128(%rcx,%rdx)
    vdivps %zmm19, %zmm17, %zmm17
    vmovups %zmm17, -64(%rcx,%rdx)
    vdivps %zmm19, %zmm16, %zmm16
    vmovups %zmm16, (%rcx,%rdx)
    incq %rsi
    addq $256, %rdx
    cmpq $64, %rsi
    jl loop
