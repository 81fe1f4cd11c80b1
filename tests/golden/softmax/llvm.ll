; softmax
define i32 @kernel(ptr %args) nounwind {
entry:
  %v1 = getelementptr ptr, ptr %args, i64 0
  %v2 = load ptr, ptr %v1
  %v3 = getelementptr ptr, ptr %args, i64 1
  %v4 = load ptr, ptr %v3
  %v5 = getelementptr ptr, ptr %args, i64 2
  %error = load ptr, ptr %v5
  %v6 = getelementptr ptr, ptr %args, i64 3
  %v7 = load ptr, ptr %v6
  %v8 = getelementptr i8, ptr %v7, i64 0
  br label %head9
head9:
  %i12 = phi i64 [ 0, %entry ], [ %v15, %body10 ]
  %v13 = icmp slt i64 %i12, 3
  br i1 %v13, label %body10, label %after11
body10:
  ; S0: tmp(n) max=! I(n,d) # starts from the neutral element
  %v14 = getelementptr float, ptr %v8, i64 %i12
  store float 0xFFF0000000000000, ptr %v14, align 4
  %v15 = add nsw i64 %i12, 1
  br label %head9
after11:
  br label %head16
head16:
  %i19 = phi i64 [ 0, %after11 ], [ %v34, %after23 ]
  %v20 = icmp slt i64 %i19, 3
  br i1 %v20, label %body17, label %after18
body17:
  br label %head21
head21:
  %i24 = phi i64 [ 0, %body17 ], [ %v33, %body22 ]
  %v25 = icmp slt i64 %i24, 7
  br i1 %v25, label %body22, label %after23
body22:
  ; S1: tmp(n) max=! I(n,d)
  %v26 = mul i64 %i19, 7
  %v27 = add i64 %v26, %i24
  %v28 = getelementptr float, ptr %v2, i64 %v27
  %v29 = load float, ptr %v28, align 4
  %v30 = getelementptr float, ptr %v8, i64 %i19
  %v31 = load float, ptr %v30, align 4
  %v32 = call float @llvm.maximum.f32(float %v31, float %v29)
  store float %v32, ptr %v30, align 4
  %v33 = add nsw i64 %i24, 1
  br label %head21
after23:
  %v34 = add nsw i64 %i19, 1
  br label %head16
after18:
  br label %head35
head35:
  %i38 = phi i64 [ 0, %after18 ], [ %v57, %after42 ]
  %v39 = icmp slt i64 %i38, 3
  br i1 %v39, label %body36, label %after37
body36:
  br label %head40
head40:
  %i43 = phi i64 [ 0, %body36 ], [ %v56, %body41 ]
  %v44 = icmp slt i64 %i43, 7
  br i1 %v44, label %body41, label %after42
body41:
  ; S2: O(n,d) = exp(I(n,d) - tmp(n))
  %v45 = mul i64 %i38, 7
  %v46 = add i64 %v45, %i43
  %v47 = getelementptr float, ptr %v2, i64 %v46
  %v48 = load float, ptr %v47, align 4
  %v49 = getelementptr float, ptr %v8, i64 %i38
  %v50 = load float, ptr %v49, align 4
  %v51 = fsub float %v48, %v50
  %v52 = call float @expf(float %v51)
  %v53 = mul i64 %i38, 7
  %v54 = add i64 %v53, %i43
  %v55 = getelementptr float, ptr %v4, i64 %v54
  store float %v52, ptr %v55, align 4
  %v56 = add nsw i64 %i43, 1
  br label %head40
after42:
  %v57 = add nsw i64 %i38, 1
  br label %head35
after37:
  br label %head58
head58:
  %i61 = phi i64 [ 0, %after37 ], [ %v64, %body59 ]
  %v62 = icmp slt i64 %i61, 3
  br i1 %v62, label %body59, label %after60
body59:
  ; S3: tmp(n) +=! O(n,d) # starts from the neutral element
  %v63 = getelementptr float, ptr %v8, i64 %i61
  store float 0x0000000000000000, ptr %v63, align 4
  %v64 = add nsw i64 %i61, 1
  br label %head58
after60:
  br label %head65
head65:
  %i68 = phi i64 [ 0, %after60 ], [ %v83, %after72 ]
  %v69 = icmp slt i64 %i68, 3
  br i1 %v69, label %body66, label %after67
body66:
  br label %head70
head70:
  %i73 = phi i64 [ 0, %body66 ], [ %v82, %body71 ]
  %v74 = icmp slt i64 %i73, 7
  br i1 %v74, label %body71, label %after72
body71:
  ; S4: tmp(n) +=! O(n,d)
  %v75 = mul i64 %i68, 7
  %v76 = add i64 %v75, %i73
  %v77 = getelementptr float, ptr %v4, i64 %v76
  %v78 = load float, ptr %v77, align 4
  %v79 = getelementptr float, ptr %v8, i64 %i68
  %v80 = load float, ptr %v79, align 4
  %v81 = fadd float %v80, %v78
  store float %v81, ptr %v79, align 4
  %v82 = add nsw i64 %i73, 1
  br label %head70
after72:
  %v83 = add nsw i64 %i68, 1
  br label %head65
after67:
  br label %head84
head84:
  %i87 = phi i64 [ 0, %after67 ], [ %v105, %after91 ]
  %v88 = icmp slt i64 %i87, 3
  br i1 %v88, label %body85, label %after86
body85:
  br label %head89
head89:
  %i92 = phi i64 [ 0, %body85 ], [ %v104, %body90 ]
  %v93 = icmp slt i64 %i92, 7
  br i1 %v93, label %body90, label %after91
body90:
  ; S5: O(n,d) = O(n,d) / tmp(n)
  %v94 = mul i64 %i87, 7
  %v95 = add i64 %v94, %i92
  %v96 = getelementptr float, ptr %v4, i64 %v95
  %v97 = load float, ptr %v96, align 4
  %v98 = getelementptr float, ptr %v8, i64 %i87
  %v99 = load float, ptr %v98, align 4
  %v100 = fdiv float %v97, %v99
  %v101 = mul i64 %i87, 7
  %v102 = add i64 %v101, %i92
  %v103 = getelementptr float, ptr %v4, i64 %v102
  store float %v100, ptr %v103, align 4
  %v104 = add nsw i64 %i92, 1
  br label %head89
after91:
  %v105 = add nsw i64 %i87, 1
  br label %head84
after86:
  ret i32 0
}

declare float @expf(float)
declare float @llvm.maximum.f32(float, float)
