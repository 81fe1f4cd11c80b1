loop:
    vbroadcastss (%rsi), %ymm12
    vmovups -160(%rdi), %ymm13
    vmovups -128(%rdi), %ymm14
    vfmadd231ps %ymm13, %ymm12, %ymm6
    vfmadd231ps %ymm12, %ymm14, %ymm0
    vbroadcastss 4(%rsi), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm7
    vfmadd231ps %ymm12, %ymm14, %ymm1
    vbroadcastss 8(%rsi), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm8
    vfmadd231ps %ymm12, %ymm14, %ymm2
    vbroadcastss 12(%rsi), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm9
    vfmadd231ps %ymm12, %ymm14, %ymm3
    vbroadcastss 16(%rsi), %ymm12
    vfmadd231ps %ymm13, %ymm12, %ymm10
    vfmadd231ps %ymm12, %ymm14, %ymm4
    vbroadcastss 20(%rsi), %ymm15
    vfmadd231ps %ymm13, %ymm15, %ymm11
    vmovups -96(%rdi), %ymm12
    vfmadd231ps %ymm14, %ymm15, %ymm5
    vmovups -64(%rdi), %ymm13
    movq %rsi, %r9
    vbroadcastss 4(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm6
    vfmadd231ps %ymm14, %ymm13, %ymm0
    vbroadcastss 8(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm7
    vfmadd231ps %ymm14, %ymm13, %ymm1
    vbroadcastss 12(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm8
    vfmadd231ps %ymm14, %ymm13, %ymm2
    vbroadcastss 16(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm9
    vfmadd231ps %ymm14, %ymm13, %ymm3
    vbroadcastss 20(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm10
    vfmadd231ps %ymm14, %ymm13, %ymm4
    vbroadcastss 24(%r9), %ymm14
    vfmadd231ps %ymm12, %ymm14, %ymm11
    vfmadd231ps %ymm13, %ymm14, %ymm5
    movq %rsi, %r9
    vmovups -32(%rdi), %ymm12
    vbroadcastss 8(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm6
    vmovups (%rdi), %ymm14
    vfmadd231ps %ymm13, %ymm14, %ymm0
    vbroadcastss 12(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm7
    vfmadd231ps %ymm13, %ymm14, %ymm1
    vbroadcastss 16(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm8
    vfmadd231ps %ymm13, %ymm14, %ymm2
    vbroadcastss 20(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm9
    vfmadd231ps %ymm13, %ymm14, %ymm3
    vbroadcastss 24(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm10
    vfmadd231ps %ymm13, %ymm14, %ymm4
    vbroadcastss 28(%r9), %ymm13
    vfmadd231ps %ymm12, %ymm13, %ymm11
    vfmadd231ps %ymm14, %ymm13, %ymm5
    incq %r8
    addq $192, %rdi
    addq $136, %rsi
    cmpq $3, %r8
    jl loop
