; sgemm
define i32 @kernel(ptr %args) nounwind {
entry:
  %v1 = getelementptr ptr, ptr %args, i64 0
  %v2 = load ptr, ptr %v1
  %v3 = load float, ptr %v2, align 4
  %v4 = getelementptr ptr, ptr %args, i64 1
  %v5 = load ptr, ptr %v4
  %v6 = load float, ptr %v5, align 4
  %v7 = getelementptr ptr, ptr %args, i64 2
  %v8 = load ptr, ptr %v7
  %v9 = getelementptr ptr, ptr %args, i64 3
  %v10 = load ptr, ptr %v9
  %v11 = getelementptr ptr, ptr %args, i64 4
  %v12 = load ptr, ptr %v11
  %v13 = getelementptr ptr, ptr %args, i64 5
  %error = load ptr, ptr %v13
  br label %head14
head14:
  %i17 = phi i64 [ 0, %entry ], [ %v33, %after21 ]
  %v18 = icmp slt i64 %i17, 4
  br i1 %v18, label %body15, label %after16
body15:
  br label %head19
head19:
  %i22 = phi i64 [ 0, %body15 ], [ %v32, %body20 ]
  %v23 = icmp slt i64 %i22, 6
  br i1 %v23, label %body20, label %after21
body20:
  ; S0: C(i,j) = b * C(i,j)
  %v24 = mul i64 %i17, 6
  %v25 = add i64 %v24, %i22
  %v26 = getelementptr float, ptr %v12, i64 %v25
  %v27 = load float, ptr %v26, align 4
  %v28 = fmul float %v6, %v27
  %v29 = mul i64 %i17, 6
  %v30 = add i64 %v29, %i22
  %v31 = getelementptr float, ptr %v12, i64 %v30
  store float %v28, ptr %v31, align 4
  %v32 = add nsw i64 %i22, 1
  br label %head19
after21:
  %v33 = add nsw i64 %i17, 1
  br label %head14
after16:
  br label %head34
head34:
  %i37 = phi i64 [ 0, %after16 ], [ %v66, %after41 ]
  %v38 = icmp slt i64 %i37, 4
  br i1 %v38, label %body35, label %after36
body35:
  br label %head39
head39:
  %i42 = phi i64 [ 0, %body35 ], [ %v65, %after46 ]
  %v43 = icmp slt i64 %i42, 6
  br i1 %v43, label %body40, label %after41
body40:
  br label %head44
head44:
  %i47 = phi i64 [ 0, %body40 ], [ %v64, %body45 ]
  %v48 = icmp slt i64 %i47, 5
  br i1 %v48, label %body45, label %after46
body45:
  ; S1: C(i,j) += a * A(i,k) * B(k,j)
  %v49 = mul i64 %i37, 5
  %v50 = add i64 %v49, %i47
  %v51 = getelementptr float, ptr %v8, i64 %v50
  %v52 = load float, ptr %v51, align 4
  %v53 = fmul float %v3, %v52
  %v54 = mul i64 %i47, 6
  %v55 = add i64 %v54, %i42
  %v56 = getelementptr float, ptr %v10, i64 %v55
  %v57 = load float, ptr %v56, align 4
  %v58 = fmul float %v53, %v57
  %v59 = mul i64 %i37, 6
  %v60 = add i64 %v59, %i42
  %v61 = getelementptr float, ptr %v12, i64 %v60
  %v62 = load float, ptr %v61, align 4
  %v63 = fadd float %v62, %v58
  store float %v63, ptr %v61, align 4
  %v64 = add nsw i64 %i47, 1
  br label %head44
after46:
  %v65 = add nsw i64 %i42, 1
  br label %head39
after41:
  %v66 = add nsw i64 %i37, 1
  br label %head34
after36:
  ret i32 0
}

