loop:
    vbroadcastss -1036(%rbx), %ymm12
    vmovups -224(%r14), %ymm13
    vmovups -192(%r14), %ymm14
    vmovups -160(%r14), %ymm11
    vmovups -128(%r14), %ymm10
    vfmadd231ps %ymm13, %ymm12, %ymm0
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -780(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -524(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -268(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -12(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm8
    vfmadd231ps %ymm14, %ymm12, %ymm9
    vbroadcastss -1032(%rbx), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm0
    vfmadd231ps %ymm12, %ymm10, %ymm1
    vbroadcastss -776(%rbx), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm2
    vfmadd231ps %ymm12, %ymm10, %ymm3
    vbroadcastss -520(%rbx), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm4
    vfmadd231ps %ymm12, %ymm10, %ymm5
    vbroadcastss -264(%rbx), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm6
    vfmadd231ps %ymm12, %ymm10, %ymm7
    vbroadcastss -8(%rbx), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm8
    vfmadd231ps %ymm10, %ymm12, %ymm9
    vmovups -96(%r14), %ymm10
    vbroadcastss -1028(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm0
    vmovups -64(%r14), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm1
    vbroadcastss -772(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm2
    vfmadd231ps %ymm11, %ymm12, %ymm3
    vbroadcastss -516(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm4
    vfmadd231ps %ymm11, %ymm12, %ymm5
    vbroadcastss -260(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm6
    vfmadd231ps %ymm11, %ymm12, %ymm7
    vbroadcastss -4(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm8
    vfmadd231ps %ymm12, %ymm11, %ymm9
    vmovups -32(%r14), %ymm10
    vbroadcastss -1024(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm0
    vmovups (%r14), %ymm12
    vfmadd231ps %ymm11, %ymm12, %ymm1
    vbroadcastss -768(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm2
    vfmadd231ps %ymm11, %ymm12, %ymm3
    vbroadcastss -512(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm4
    vfmadd231ps %ymm11, %ymm12, %ymm5
    vbroadcastss -256(%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm6
    vfmadd231ps %ymm11, %ymm12, %ymm7
    vbroadcastss (%rbx), %ymm11
    vfmadd231ps %ymm10, %ymm11, %ymm8
    vfmadd231ps %ymm12, %ymm11, %ymm9
    incq %r15
    addq $256, %r14
    addq $16, %rbx
    cmpq $16, %r15
    jl loop
