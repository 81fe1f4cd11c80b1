loop:
    vbroadcastss -1292(%r11), %ymm12
    vmovups -224(%rbx), %ymm13
    vmovups -192(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm12, %ymm0
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss -1036(%r11), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm2
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss -780(%r11), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm4
    vfmadd231ps %ymm12, %ymm14, %ymm5
    vbroadcastss -524(%r11), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vbroadcastss -268(%r11), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vbroadcastss -12(%r11), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vmovups -160(%rbx), %ymm13
    vfmadd231ps %ymm14, %ymm12, %ymm11
    vmovups -128(%rbx), %ymm12
    vbroadcastss -1288(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm0
    vfmadd231ps %ymm14, %ymm12, %ymm1
    vbroadcastss -1032(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm2
    vfmadd231ps %ymm14, %ymm12, %ymm3
    vbroadcastss -776(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm4
    vfmadd231ps %ymm14, %ymm12, %ymm5
    vbroadcastss -520(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm6
    vfmadd231ps %ymm14, %ymm12, %ymm7
    vbroadcastss -264(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm8
    vfmadd231ps %ymm14, %ymm12, %ymm9
    vbroadcastss -8(%r11), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm10
    vfmadd231ps %ymm12, %ymm14, %ymm11
    vmovups -96(%rbx), %ymm12
    vbroadcastss -1284(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups -64(%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm1
    vbroadcastss -1028(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss -772(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm13, %ymm14, %ymm5
    vbroadcastss -516(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm13, %ymm14, %ymm7
    vbroadcastss -260(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm13, %ymm14, %ymm9
    vbroadcastss -4(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm10
    vfmadd231ps %ymm14, %ymm13, %ymm11
    vmovups -32(%rbx), %ymm12
    vbroadcastss -1280(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm0
    vmovups (%rbx), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm1
    vbroadcastss -1024(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss -768(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm4
    vfmadd231ps %ymm13, %ymm14, %ymm5
    vbroadcastss -512(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vfmadd231ps %ymm13, %ymm14, %ymm7
    vbroadcastss -256(%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm13, %ymm14, %ymm9
    vbroadcastss (%r11), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm10
    vfmadd231ps %ymm14, %ymm13, %ymm11
    incq %r14
    addq $256, %rbx
    addq $16, %r11
    cmpq $16, %r14
    jl loop
