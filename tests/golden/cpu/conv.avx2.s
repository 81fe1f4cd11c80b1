loop:
    vbroadcastss -2888(%r12), %ymm12
    vmovups -40(%r13), %ymm13
    vmovups -8(%r13), %ymm14
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -2312(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -1736(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -1160(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -584(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vbroadcastss -8(%r12), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vmovups -36(%r13), %ymm13
    vfmadd231ps %ymm12, %ymm14, %ymm11
    vbroadcastss -2884(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups -4(%r13), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -2308(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -1732(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -1156(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -580(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vbroadcastss -4(%r12), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vmovups -32(%r13), %ymm13
    vfmadd231ps %ymm12, %ymm14, %ymm11
    vbroadcastss -2880(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups (%r13), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -2304(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -1728(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -1152(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -576(%r12), %ymm12
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vbroadcastss (%r12), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vfmadd231ps %ymm12, %ymm14, %ymm11
    incq %rbx
    addq $12, %r12
    addq $136, %r13
    cmpq $3, %rbx
    jl loop
