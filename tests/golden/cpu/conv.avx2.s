loop:
    vbroadcastss -1736(%r13), %ymm10
    vmovups -40(%r12), %ymm11
    vmovups -36(%r12), %ymm9
    vmovups -32(%r12), %ymm8
    vmovups -8(%r12), %ymm12
    vfmadd231ps %ymm10, %ymm11, %ymm0
    vfmadd231ps %ymm10, %ymm12, %ymm1
    vbroadcastss -1160(%r13), %ymm10
    vfmadd231ps %ymm10, %ymm11, %ymm2
    vfmadd231ps %ymm10, %ymm12, %ymm3
    vbroadcastss -584(%r13), %ymm10
    vfmadd231ps %ymm10, %ymm11, %ymm4
    vfmadd231ps %ymm10, %ymm12, %ymm5
    vbroadcastss -8(%r13), %ymm10
    vfmadd231ps %ymm11, %ymm10, %ymm6
    vfmadd231ps %ymm10, %ymm12, %ymm7
    vbroadcastss -1732(%r13), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm0
    vmovups -4(%r12), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm1
    vbroadcastss -1156(%r13), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm2
    vfmadd231ps %ymm10, %ymm11, %ymm3
    vbroadcastss -580(%r13), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm4
    vfmadd231ps %ymm10, %ymm11, %ymm5
    vbroadcastss -4(%r13), %ymm10
    vfmadd231ps %ymm9, %ymm10, %ymm6
    vfmadd231ps %ymm10, %ymm11, %ymm7
    vbroadcastss -1728(%r13), %ymm9
    vfmadd231ps %ymm9, %ymm8, %ymm0
    vmovups (%r12), %ymm10
    vfmadd231ps %ymm9, %ymm10, %ymm1
    vbroadcastss -1152(%r13), %ymm9
    vfmadd231ps %ymm9, %ymm8, %ymm2
    vfmadd231ps %ymm9, %ymm10, %ymm3
    vbroadcastss -576(%r13), %ymm9
    vfmadd231ps %ymm9, %ymm8, %ymm4
    vfmadd231ps %ymm9, %ymm10, %ymm5
    vbroadcastss (%r13), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm6
    vfmadd231ps %ymm9, %ymm10, %ymm7
    incq %rax
    addq $12, %r13
    addq $136, %r12
    cmpq $3, %rax
    jl loop
