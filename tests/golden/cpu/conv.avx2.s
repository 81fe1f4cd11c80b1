loop:
    vbroadcastss -20(%rsi), %ymm10
    vmovups -160(%rdi), %ymm11
    vmovups -128(%rdi), %ymm12
    vmovups -96(%rdi), %ymm9
    vmovups -64(%rdi), %ymm8
    vfmadd231ps %ymm11, %ymm10, %ymm4
    vfmadd231ps %ymm10, %ymm12, %ymm0
    vbroadcastss -16(%rsi), %ymm10
    vfmadd231ps %ymm11, %ymm10, %ymm5
    vfmadd231ps %ymm12, %ymm10, %ymm1
    vbroadcastss -12(%rsi), %ymm13
    vfmadd231ps %ymm11, %ymm13, %ymm6
    vfmadd231ps %ymm12, %ymm13, %ymm2
    vbroadcastss -8(%rsi), %ymm14
    vfmadd231ps %ymm11, %ymm14, %ymm7
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vfmadd231ps %ymm9, %ymm10, %ymm4
    vfmadd231ps %ymm10, %ymm8, %ymm0
    vfmadd231ps %ymm9, %ymm13, %ymm5
    vfmadd231ps %ymm8, %ymm13, %ymm1
    vfmadd231ps %ymm9, %ymm14, %ymm6
    vfmadd231ps %ymm8, %ymm14, %ymm2
    vbroadcastss -4(%rsi), %ymm10
    vfmadd231ps %ymm9, %ymm10, %ymm7
    vfmadd231ps %ymm8, %ymm10, %ymm3
    vmovups -32(%rdi), %ymm8
    vfmadd231ps %ymm8, %ymm13, %ymm4
    vmovups (%rdi), %ymm9
    vfmadd231ps %ymm13, %ymm9, %ymm0
    vfmadd231ps %ymm8, %ymm14, %ymm5
    vfmadd231ps %ymm14, %ymm9, %ymm1
    vfmadd231ps %ymm8, %ymm10, %ymm6
    vfmadd231ps %ymm10, %ymm9, %ymm2
    vbroadcastss (%rsi), %ymm10
    vfmadd231ps %ymm8, %ymm10, %ymm7
    vfmadd231ps %ymm9, %ymm10, %ymm3
    incq %r8
    addq $192, %rdi
    addq $136, %rsi
    cmpq $3, %r8
    jl loop
