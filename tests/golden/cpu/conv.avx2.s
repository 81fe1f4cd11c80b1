loop:
    vbroadcastss -20(%r15), %ymm11
    vmovups -160(%r12), %ymm12
    vmovups -128(%r12), %ymm13
    vmovups -96(%r12), %ymm10
    vmovups -64(%r12), %ymm9
    vfmadd231ps %ymm12, %ymm11, %ymm5
    vfmadd231ps %ymm11, %ymm13, %ymm1
    vbroadcastss -16(%r15), %ymm11
    vfmadd231ps %ymm12, %ymm11, %ymm6
    vfmadd231ps %ymm13, %ymm11, %ymm2
    vbroadcastss -12(%r15), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss -8(%r15), %ymm15
    vfmadd231ps %ymm12, %ymm15, %ymm8
    vfmadd231ps %ymm13, %ymm15, %ymm4
    vfmadd231ps %ymm10, %ymm11, %ymm5
    vfmadd231ps %ymm11, %ymm9, %ymm1
    vfmadd231ps %ymm10, %ymm14, %ymm6
    vfmadd231ps %ymm9, %ymm14, %ymm2
    vfmadd231ps %ymm10, %ymm15, %ymm7
    vfmadd231ps %ymm9, %ymm15, %ymm3
    vbroadcastss -4(%r15), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm8
    vfmadd231ps %ymm9, %ymm11, %ymm4
    vmovups -32(%r12), %ymm9
    vfmadd231ps %ymm9, %ymm14, %ymm5
    vmovups (%r12), %ymm10
    vfmadd231ps %ymm14, %ymm10, %ymm1
    vfmadd231ps %ymm9, %ymm15, %ymm6
    vfmadd231ps %ymm15, %ymm10, %ymm2
    vfmadd231ps %ymm9, %ymm11, %ymm7
    vfmadd231ps %ymm11, %ymm10, %ymm3
    vbroadcastss (%r15), %ymm11
    vfmadd231ps %ymm9, %ymm11, %ymm8
    vfmadd231ps %ymm10, %ymm11, %ymm4
    incq %r8
    addq $192, %r12
    addq $136, %r15
    cmpq $3, %r8
    jl loop
