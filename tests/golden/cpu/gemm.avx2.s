loop:
    vbroadcastss -1292(%rbx), %ymm12
    vmovups -224(%r14), %ymm13
    vmovups -192(%r14), %ymm14
    vfmadd231ps %ymm13, %ymm12, %ymm0
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -1036(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -780(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -524(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -268(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vbroadcastss -12(%rbx), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vmovups -160(%r14), %ymm13
    vfmadd231ps %ymm14, %ymm12, %ymm11
    vmovups -128(%r14), %ymm12
    vbroadcastss -1288(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm0
    vfmadd231ps %ymm14, %ymm12, %ymm1
    vbroadcastss -1032(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm2
    vfmadd231ps %ymm14, %ymm12, %ymm3
    vbroadcastss -776(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm4
    vfmadd231ps %ymm14, %ymm12, %ymm5
    vbroadcastss -520(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm6
    vfmadd231ps %ymm14, %ymm12, %ymm7
    vbroadcastss -264(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm8
    vfmadd231ps %ymm14, %ymm12, %ymm9
    vbroadcastss -8(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm10
    vfmadd231ps %ymm12, %ymm14, %ymm11
    vmovups -96(%r14), %ymm12
    vbroadcastss -1284(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups -64(%r14), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm1
    vbroadcastss -1028(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss -772(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm13, %ymm14, %ymm5
    vbroadcastss -516(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm13, %ymm14, %ymm7
    vbroadcastss -260(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm13, %ymm14, %ymm9
    vbroadcastss -4(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm10
    vfmadd231ps %ymm14, %ymm13, %ymm11
    vmovups -32(%r14), %ymm12
    vbroadcastss -1280(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups (%r14), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm1
    vbroadcastss -1024(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss -768(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm13, %ymm14, %ymm5
    vbroadcastss -512(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm13, %ymm14, %ymm7
    vbroadcastss -256(%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm13, %ymm14, %ymm9
    vbroadcastss (%rbx), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm10
    vfmadd231ps %ymm14, %ymm13, %ymm11
    incq %r15
    addq $256, %r14
    addq $16, %rbx
    cmpq $16, %r15
    jl loop
