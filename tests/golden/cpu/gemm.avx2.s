loop:
    vbroadcastss -268(%r8), %ymm8
    vmovups -480(%r9), %ymm9
    vmovups -448(%r9), %ymm10
    vmovups -416(%r9), %ymm11
    vmovups -384(%r9), %ymm12
    vfmadd231ps %ymm9, %ymm8, %ymm0
    vfmadd231ps %ymm10, %ymm8, %ymm1
    vfmadd231ps %ymm11, %ymm8, %ymm2
    vfmadd231ps %ymm8, %ymm12, %ymm3
    vbroadcastss -12(%r8), %ymm8
    vfmadd231ps %ymm9, %ymm8, %ymm4
    vfmadd231ps %ymm10, %ymm8, %ymm5
    vfmadd231ps %ymm11, %ymm8, %ymm6
    vfmadd231ps %ymm12, %ymm8, %ymm7
    vmovups -352(%r9), %ymm8
    vbroadcastss -264(%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm0
    vmovups -320(%r9), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm1
    vmovups -288(%r9), %ymm11
    vfmadd231ps %ymm11, %ymm9, %ymm2
    vmovups -256(%r9), %ymm12
    vfmadd231ps %ymm9, %ymm12, %ymm3
    vbroadcastss -8(%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm4
    vfmadd231ps %ymm10, %ymm9, %ymm5
    vfmadd231ps %ymm11, %ymm9, %ymm6
    vfmadd231ps %ymm12, %ymm9, %ymm7
    vmovups -224(%r9), %ymm8
    vbroadcastss -260(%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm0
    vmovups -192(%r9), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm1
    vmovups -160(%r9), %ymm11
    vfmadd231ps %ymm11, %ymm9, %ymm2
    vmovups -128(%r9), %ymm12
    vfmadd231ps %ymm9, %ymm12, %ymm3
    vbroadcastss -4(%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm4
    vfmadd231ps %ymm10, %ymm9, %ymm5
    vfmadd231ps %ymm11, %ymm9, %ymm6
    vfmadd231ps %ymm12, %ymm9, %ymm7
    vmovups -96(%r9), %ymm8
    vbroadcastss -256(%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm0
    vmovups -64(%r9), %ymm10
    vfmadd231ps %ymm10, %ymm9, %ymm1
    vmovups -32(%r9), %ymm11
    vfmadd231ps %ymm11, %ymm9, %ymm2
    vmovups (%r9), %ymm12
    vfmadd231ps %ymm9, %ymm12, %ymm3
    vbroadcastss (%r8), %ymm9
    vfmadd231ps %ymm8, %ymm9, %ymm4
    vfmadd231ps %ymm10, %ymm9, %ymm5
    vfmadd231ps %ymm11, %ymm9, %ymm6
    vfmadd231ps %ymm12, %ymm9, %ymm7
    incq %r10
    addq $512, %r9
    addq $16, %r8
    cmpq $16, %r10
    jl loop
