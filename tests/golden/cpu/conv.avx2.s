loop:
    vbroadcastss -20(%r15), %ymm10
    vmovups -160(%r12), %ymm11
    vmovups -128(%r12), %ymm12
    vmovups -96(%r12), %ymm9
    vmovups -64(%r12), %ymm8
    vfmadd231ps %ymm11, %ymm10, %ymm4
    vfmadd231ps %ymm10, %ymm12, %ymm0
    vbroadcastss -16(%r15), %ymm10
    vfmadd231ps %ymm11, %ymm10, %ymm5
    vfmadd231ps %ymm12, %ymm10, %ymm1
    vbroadcastss -12(%r15), %ymm13
    vfmadd231ps %ymm11, %ymm13, %ymm6
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vbroadcastss -8(%r15), %ymm14
    vfmadd231ps %ymm11, %ymm14, %ymm7
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vfmadd231ps %ymm9, %ymm10, %ymm4
    vfmadd231ps %ymm10, %ymm8, %ymm0
    vfmadd231ps %ymm9, %ymm13, %ymm5
    vfmadd231ps %ymm8, %ymm13, %ymm1
    vfmadd231ps %ymm9, %ymm14, %ymm6
    vfmadd231ps %ymm8, %ymm14, %ymm2
    vbroadcastss -4(%r15), %ymm10
    vfmadd231ps %ymm9, %ymm10, %ymm7
    vfmadd231ps %ymm8, %ymm10, %ymm3
    vmovups -32(%r12), %ymm8
    vfmadd231ps %ymm8, %ymm13, %ymm4
    vmovups (%r12), %ymm9
    vfmadd231ps %ymm13, %ymm9, %ymm0
    vfmadd231ps %ymm8, %ymm14, %ymm5
    vfmadd231ps %ymm14, %ymm9, %ymm1
    vfmadd231ps %ymm8, %ymm10, %ymm6
    vfmadd231ps %ymm10, %ymm9, %ymm2
    vbroadcastss (%r15), %ymm10
    vfmadd231ps %ymm8, %ymm10, %ymm7
    vfmadd231ps %ymm9, %ymm10, %ymm3
    incq %r8
    addq $192, %r12
    addq $136, %r15
    cmpq $3, %r8
    jl loop
