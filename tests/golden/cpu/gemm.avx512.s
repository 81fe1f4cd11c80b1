loop:
    vbroadcastss -780(%rdi), %zmm16
    vmovups -960(%r8), %zmm17
    vmovups -896(%r8), %zmm18
    vmovups -832(%r8), %zmm19
    vmovups -768(%r8), %zmm20
    vfmadd231ps %zmm17, %zmm16, %zmm0
    vfmadd231ps %zmm18, %zmm16, %zmm1
    vfmadd231ps %zmm19, %zmm16, %zmm2
    vfmadd231ps %zmm16, %zmm20, %zmm3
    vbroadcastss -524(%rdi), %zmm16
    vfmadd231ps %zmm17, %zmm16, %zmm4
    vfmadd231ps %zmm18, %zmm16, %zmm5
    vfmadd231ps %zmm19, %zmm16, %zmm6
    vfmadd231ps %zmm16, %zmm20, %zmm7
    vbroadcastss -268(%rdi), %zmm16
    vfmadd231ps %zmm17, %zmm16, %zmm8
    vfmadd231ps %zmm18, %zmm16, %zmm9
    vfmadd231ps %zmm19, %zmm16, %zmm10
    vfmadd231ps %zmm16, %zmm20, %zmm11
    vbroadcastss -12(%rdi), %zmm16
    vfmadd231ps %zmm17, %zmm16, %zmm12
    vfmadd231ps %zmm18, %zmm16, %zmm13
    vfmadd231ps %zmm19, %zmm16, %zmm14
    vfmadd231ps %zmm20, %zmm16, %zmm15
    vmovups -704(%r8), %zmm16
    vbroadcastss -776(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm0
    vmovups -640(%r8), %zmm18
    vfmadd231ps %zmm18, %zmm17, %zmm1
    vmovups -576(%r8), %zmm19
    vfmadd231ps %zmm19, %zmm17, %zmm2
    vmovups -512(%r8), %zmm20
    vfmadd231ps %zmm17, %zmm20, %zmm3
    vbroadcastss -520(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm4
    vfmadd231ps %zmm18, %zmm17, %zmm5
    vfmadd231ps %zmm19, %zmm17, %zmm6
    vfmadd231ps %zmm17, %zmm20, %zmm7
    vbroadcastss -264(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm8
    vfmadd231ps %zmm18, %zmm17, %zmm9
    vfmadd231ps %zmm19, %zmm17, %zmm10
    vfmadd231ps %zmm17, %zmm20, %zmm11
    vbroadcastss -8(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm12
    vfmadd231ps %zmm18, %zmm17, %zmm13
    vfmadd231ps %zmm19, %zmm17, %zmm14
    vfmadd231ps %zmm20, %zmm17, %zmm15
    vmovups -448(%r8), %zmm16
    vbroadcastss -772(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm0
    vmovups -384(%r8), %zmm18
    vfmadd231ps %zmm18, %zmm17, %zmm1
    vmovups -320(%r8), %zmm19
    vfmadd231ps %zmm19, %zmm17, %zmm2
    vmovups -256(%r8), %zmm20
    vfmadd231ps %zmm17, %zmm20, %zmm3
    vbroadcastss -516(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm4
    vfmadd231ps %zmm18, %zmm17, %zmm5
    vfmadd231ps %zmm19, %zmm17, %zmm6
    vfmadd231ps %zmm17, %zmm20, %zmm7
    vbroadcastss -260(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm8
    vfmadd231ps %zmm18, %zmm17, %zmm9
    vfmadd231ps %zmm19, %zmm17, %zmm10
    vfmadd231ps %zmm17, %zmm20, %zmm11
    vbroadcastss -4(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm12
    vfmadd231ps %zmm18, %zmm17, %zmm13
    vfmadd231ps %zmm19, %zmm17, %zmm14
    vfmadd231ps %zmm20, %zmm17, %zmm15
    vmovups -192(%r8), %zmm16
    vbroadcastss -768(%rdi), %zmm17
    vmovups -128(%r8), %zmm18
    vfmadd231ps %zmm16, %zmm17, %zmm0
    vfmadd231ps %zmm18, %zmm17, %zmm1
    vmovups -64(%r8), %zmm19
    vmovups (%r8), %zmm20
    vfmadd231ps %zmm19, %zmm17, %zmm2
    vfmadd231ps %zmm17, %zmm20, %zmm3
    vbroadcastss -512(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm4
    vfmadd231ps %zmm18, %zmm17, %zmm5
    vfmadd231ps %zmm19, %zmm17, %zmm6
    vfmadd231ps %zmm17, %zmm20, %zmm7
    vbroadcastss -256(%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm8
    vfmadd231ps %zmm18, %zmm17, %zmm9
    vfmadd231ps %zmm19, %zmm17, %zmm10
    vfmadd231ps %zmm17, %zmm20, %zmm11
    vbroadcastss (%rdi), %zmm17
    vfmadd231ps %zmm16, %zmm17, %zmm12
    vfmadd231ps %zmm18, %zmm17, %zmm13
    vfmadd231ps %zmm19, %zmm17, %zmm14
    vfmadd231ps %zmm20, %zmm17, %zmm15
    incq %r9
    addq $1024, %r8
    addq $16, %rdi
    cmpq $16, %r9
    jl loop
