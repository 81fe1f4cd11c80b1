loop:
    vbroadcastss -2888(%r13), %zmm26
    vmovups -208(%r12), %zmm27
    vmovups -204(%r12), %zmm25
    vmovups -200(%r12), %zmm24
    vmovups -144(%r12), %zmm28
    vfmadd231ps %zmm26, %zmm27, %zmm0
    vfmadd231ps %zmm26, %zmm28, %zmm1
    vmovups -72(%r12), %zmm29
    vmovups -8(%r12), %zmm30
    vfmadd231ps %zmm26, %zmm29, %zmm2
    vfmadd231ps %zmm26, %zmm30, %zmm3
    vbroadcastss -2312(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm27, %zmm4
    vfmadd231ps %zmm26, %zmm28, %zmm5
    vfmadd231ps %zmm26, %zmm29, %zmm6
    vfmadd231ps %zmm26, %zmm30, %zmm7
    vbroadcastss -1736(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm27, %zmm8
    vfmadd231ps %zmm26, %zmm28, %zmm9
    vfmadd231ps %zmm26, %zmm29, %zmm10
    vfmadd231ps %zmm26, %zmm30, %zmm11
    vbroadcastss -1160(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm27, %zmm12
    vfmadd231ps %zmm26, %zmm28, %zmm13
    vfmadd231ps %zmm26, %zmm29, %zmm14
    vfmadd231ps %zmm26, %zmm30, %zmm15
    vbroadcastss -584(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm27, %zmm16
    vfmadd231ps %zmm26, %zmm28, %zmm17
    vfmadd231ps %zmm26, %zmm29, %zmm18
    vfmadd231ps %zmm26, %zmm30, %zmm19
    vbroadcastss -8(%r13), %zmm26
    vfmadd231ps %zmm27, %zmm26, %zmm20
    vfmadd231ps %zmm28, %zmm26, %zmm21
    vfmadd231ps %zmm29, %zmm26, %zmm22
    vfmadd231ps %zmm26, %zmm30, %zmm23
    vbroadcastss -2884(%r13), %zmm26
    vmovups -140(%r12), %zmm27
    vfmadd231ps %zmm26, %zmm25, %zmm0
    vfmadd231ps %zmm26, %zmm27, %zmm1
    vmovups -68(%r12), %zmm28
    vmovups -4(%r12), %zmm29
    vfmadd231ps %zmm26, %zmm28, %zmm2
    vfmadd231ps %zmm26, %zmm29, %zmm3
    vbroadcastss -2308(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm25, %zmm4
    vfmadd231ps %zmm26, %zmm27, %zmm5
    vfmadd231ps %zmm26, %zmm28, %zmm6
    vfmadd231ps %zmm26, %zmm29, %zmm7
    vbroadcastss -1732(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm25, %zmm8
    vfmadd231ps %zmm26, %zmm27, %zmm9
    vfmadd231ps %zmm26, %zmm28, %zmm10
    vfmadd231ps %zmm26, %zmm29, %zmm11
    vbroadcastss -1156(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm25, %zmm12
    vfmadd231ps %zmm26, %zmm27, %zmm13
    vfmadd231ps %zmm26, %zmm28, %zmm14
    vfmadd231ps %zmm26, %zmm29, %zmm15
    vbroadcastss -580(%r13), %zmm26
    vfmadd231ps %zmm26, %zmm25, %zmm16
    vfmadd231ps %zmm26, %zmm27, %zmm17
    vfmadd231ps %zmm26, %zmm28, %zmm18
    vfmadd231ps %zmm26, %zmm29, %zmm19
    vbroadcastss -4(%r13), %zmm26
    vfmadd231ps %zmm25, %zmm26, %zmm20
    vfmadd231ps %zmm27, %zmm26, %zmm21
    vfmadd231ps %zmm28, %zmm26, %zmm22
    vfmadd231ps %zmm26, %zmm29, %zmm23
    vbroadcastss -2880(%r13), %zmm25
    vmovups -136(%r12), %zmm26
    vfmadd231ps %zmm25, %zmm24, %zmm0
    vfmadd231ps %zmm25, %zmm26, %zmm1
    vmovups -64(%r12), %zmm27
    vmovups (%r12), %zmm28
    vfmadd231ps %zmm25, %zmm27, %zmm2
    vfmadd231ps %zmm25, %zmm28, %zmm3
    vbroadcastss -2304(%r13), %zmm25
    vfmadd231ps %zmm25, %zmm24, %zmm4
    vfmadd231ps %zmm25, %zmm26, %zmm5
    vfmadd231ps %zmm25, %zmm27, %zmm6
    vfmadd231ps %zmm25, %zmm28, %zmm7
    vbroadcastss -1728(%r13), %zmm25
    vfmadd231ps %zmm25, %zmm24, %zmm8
    vfmadd231ps %zmm25, %zmm26, %zmm9
    vfmadd231ps %zmm25, %zmm27, %zmm10
    vfmadd231ps %zmm25, %zmm28, %zmm11
    vbroadcastss -1152(%r13), %zmm25
    vfmadd231ps %zmm25, %zmm24, %zmm12
    vfmadd231ps %zmm25, %zmm26, %zmm13
    vfmadd231ps %zmm25, %zmm27, %zmm14
    vfmadd231ps %zmm25, %zmm28, %zmm15
    vbroadcastss -576(%r13), %zmm25
    vfmadd231ps %zmm25, %zmm24, %zmm16
    vfmadd231ps %zmm25, %zmm26, %zmm17
    vfmadd231ps %zmm25, %zmm27, %zmm18
    vfmadd231ps %zmm25, %zmm28, %zmm19
    vbroadcastss (%r13), %zmm25
    vfmadd231ps %zmm24, %zmm25, %zmm20
    vfmadd231ps %zmm26, %zmm25, %zmm21
    vfmadd231ps %zmm27, %zmm25, %zmm22
    vfmadd231ps %zmm25, %zmm28, %zmm23
    incq %rdi
    addq $12, %r13
    addq $136, %r12
    cmpq $3, %rdi
    jl loop
