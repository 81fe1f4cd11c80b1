loop:
    vbroadcastss -1736(%r14), %zmm18
    vmovups -208(%r13), %zmm19
    vmovups -204(%r13), %zmm17
    vmovups -200(%r13), %zmm16
    vmovups -144(%r13), %zmm20
    vfmadd231ps %zmm18, %zmm19, %zmm0
    vfmadd231ps %zmm18, %zmm20, %zmm1
    vmovups -72(%r13), %zmm21
    vmovups -8(%r13), %zmm22
    vfmadd231ps %zmm18, %zmm21, %zmm2
    vfmadd231ps %zmm18, %zmm22, %zmm3
    vbroadcastss -1160(%r14), %zmm18
    vfmadd231ps %zmm18, %zmm19, %zmm4
    vfmadd231ps %zmm18, %zmm20, %zmm5
    vfmadd231ps %zmm18, %zmm21, %zmm6
    vfmadd231ps %zmm18, %zmm22, %zmm7
    vbroadcastss -584(%r14), %zmm18
    vfmadd231ps %zmm18, %zmm19, %zmm8
    vfmadd231ps %zmm18, %zmm20, %zmm9
    vfmadd231ps %zmm18, %zmm21, %zmm10
    vfmadd231ps %zmm18, %zmm22, %zmm11
    vbroadcastss -8(%r14), %zmm18
    vfmadd231ps %zmm19, %zmm18, %zmm12
    vfmadd231ps %zmm20, %zmm18, %zmm13
    vfmadd231ps %zmm21, %zmm18, %zmm14
    vfmadd231ps %zmm18, %zmm22, %zmm15
    vbroadcastss -1732(%r14), %zmm18
    vmovups -140(%r13), %zmm19
    vfmadd231ps %zmm18, %zmm17, %zmm0
    vfmadd231ps %zmm18, %zmm19, %zmm1
    vmovups -68(%r13), %zmm20
    vmovups -4(%r13), %zmm21
    vfmadd231ps %zmm18, %zmm20, %zmm2
    vfmadd231ps %zmm18, %zmm21, %zmm3
    vbroadcastss -1156(%r14), %zmm18
    vfmadd231ps %zmm18, %zmm17, %zmm4
    vfmadd231ps %zmm18, %zmm19, %zmm5
    vfmadd231ps %zmm18, %zmm20, %zmm6
    vfmadd231ps %zmm18, %zmm21, %zmm7
    vbroadcastss -580(%r14), %zmm18
    vfmadd231ps %zmm18, %zmm17, %zmm8
    vfmadd231ps %zmm18, %zmm19, %zmm9
    vfmadd231ps %zmm18, %zmm20, %zmm10
    vfmadd231ps %zmm18, %zmm21, %zmm11
    vbroadcastss -4(%r14), %zmm18
    vfmadd231ps %zmm17, %zmm18, %zmm12
    vfmadd231ps %zmm19, %zmm18, %zmm13
    vfmadd231ps %zmm20, %zmm18, %zmm14
    vfmadd231ps %zmm18, %zmm21, %zmm15
    vbroadcastss -1728(%r14), %zmm17
    vmovups -136(%r13), %zmm18
    vfmadd231ps %zmm17, %zmm16, %zmm0
    vfmadd231ps %zmm17, %zmm18, %zmm1
    vmovups -64(%r13), %zmm19
    vmovups (%r13), %zmm20
    vfmadd231ps %zmm17, %zmm19, %zmm2
    vfmadd231ps %zmm17, %zmm20, %zmm3
    vbroadcastss -1152(%r14), %zmm17
    vfmadd231ps %zmm17, %zmm16, %zmm4
    vfmadd231ps %zmm17, %zmm18, %zmm5
    vfmadd231ps %zmm17, %zmm19, %zmm6
    vfmadd231ps %zmm17, %zmm20, %zmm7
    vbroadcastss -576(%r14), %zmm17
    vfmadd231ps %zmm17, %zmm16, %zmm8
    vfmadd231ps %zmm17, %zmm18, %zmm9
    vfmadd231ps %zmm17, %zmm19, %zmm10
    vfmadd231ps %zmm17, %zmm20, %zmm11
    vbroadcastss (%r14), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm12
    vfmadd231ps %zmm18, %zmm17, %zmm13
    vfmadd231ps %zmm19, %zmm17, %zmm14
    vfmadd231ps %zmm17, %zmm20, %zmm15
    incq %rsi
    addq $12, %r14
    addq $136, %r13
    cmpq $3, %rsi
    jl loop
