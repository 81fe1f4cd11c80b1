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
  %i17 = phi i64 [ 0, %entry ], [ %v41, %after29 ]
  %v18 = icmp slt i64 %i17, 4
  br i1 %v18, label %body15, label %after16
body15:
  %v19 = call ptr @tc_signals()
  %v20 = load volatile i32, ptr %v19, align 4
  %v24 = icmp eq i32 %v20, 0
  br i1 %v24, label %go23, label %signal21
signal21:
  %v25 = call i32 @tc_interrupted()
  %v26 = icmp eq i32 %v25, 0
  br i1 %v26, label %go23, label %stop22
stop22:
  ret i32 1
go23:
  br label %head27
head27:
  %i30 = phi i64 [ 0, %go23 ], [ %v40, %body28 ]
  %v31 = icmp slt i64 %i30, 6
  br i1 %v31, label %body28, label %after29
body28:
  ; S0: C(i,j) = b * C(i,j)
  %v32 = mul i64 %i17, 6
  %v33 = add i64 %v32, %i30
  %v34 = getelementptr float, ptr %v12, i64 %v33
  %v35 = load float, ptr %v34, align 4
  %v36 = fmul float %v6, %v35
  %v37 = mul i64 %i17, 6
  %v38 = add i64 %v37, %i30
  %v39 = getelementptr float, ptr %v12, i64 %v38
  store float %v36, ptr %v39, align 4
  %v40 = add nsw i64 %i30, 1
  br label %head27
after29:
  %v41 = add nsw i64 %i17, 1
  br label %head14
after16:
  br label %head42
head42:
  %i45 = phi i64 [ 0, %after16 ], [ %v90, %after57 ]
  %v46 = icmp slt i64 %i45, 4
  br i1 %v46, label %body43, label %after44
body43:
  %v47 = call ptr @tc_signals()
  %v48 = load volatile i32, ptr %v47, align 4
  %v52 = icmp eq i32 %v48, 0
  br i1 %v52, label %go51, label %signal49
signal49:
  %v53 = call i32 @tc_interrupted()
  %v54 = icmp eq i32 %v53, 0
  br i1 %v54, label %go51, label %stop50
stop50:
  ret i32 1
go51:
  br label %head55
head55:
  %i58 = phi i64 [ 0, %go51 ], [ %v89, %after70 ]
  %v59 = icmp slt i64 %i58, 6
  br i1 %v59, label %body56, label %after57
body56:
  %v60 = call ptr @tc_signals()
  %v61 = load volatile i32, ptr %v60, align 4
  %v65 = icmp eq i32 %v61, 0
  br i1 %v65, label %go64, label %signal62
signal62:
  %v66 = call i32 @tc_interrupted()
  %v67 = icmp eq i32 %v66, 0
  br i1 %v67, label %go64, label %stop63
stop63:
  ret i32 1
go64:
  br label %head68
head68:
  %i71 = phi i64 [ 0, %go64 ], [ %v88, %body69 ]
  %v72 = icmp slt i64 %i71, 5
  br i1 %v72, label %body69, label %after70
body69:
  ; S1: C(i,j) += a * A(i,k) * B(k,j)
  %v73 = mul i64 %i45, 5
  %v74 = add i64 %v73, %i71
  %v75 = getelementptr float, ptr %v8, i64 %v74
  %v76 = load float, ptr %v75, align 4
  %v77 = fmul float %v3, %v76
  %v78 = mul i64 %i71, 6
  %v79 = add i64 %v78, %i58
  %v80 = getelementptr float, ptr %v10, i64 %v79
  %v81 = load float, ptr %v80, align 4
  %v82 = fmul float %v77, %v81
  %v83 = mul i64 %i45, 6
  %v84 = add i64 %v83, %i58
  %v85 = getelementptr float, ptr %v12, i64 %v84
  %v86 = load float, ptr %v85, align 4
  %v87 = fadd float %v86, %v82
  store float %v87, ptr %v85, align 4
  %v88 = add nsw i64 %i71, 1
  br label %head68
after70:
  %v89 = add nsw i64 %i58, 1
  br label %head55
after57:
  %v90 = add nsw i64 %i45, 1
  br label %head42
after44:
  ret i32 0
}

declare i32 @tc_interrupted()
declare ptr @tc_signals()
