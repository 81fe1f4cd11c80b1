; sconv
define i32 @kernel(ptr %args) nounwind {
entry:
  %v1 = getelementptr ptr, ptr %args, i64 0
  %v2 = load ptr, ptr %v1
  %v3 = getelementptr ptr, ptr %args, i64 1
  %v4 = load ptr, ptr %v3
  %v5 = getelementptr ptr, ptr %args, i64 2
  %v6 = load ptr, ptr %v5
  %v7 = getelementptr ptr, ptr %args, i64 3
  %v8 = load ptr, ptr %v7
  %v9 = getelementptr ptr, ptr %args, i64 4
  %error = load ptr, ptr %v9
  br label %head10
head10:
  %i13 = phi i64 [ 0, %entry ], [ %v42, %after17 ]
  %v14 = icmp slt i64 %i13, 2
  br i1 %v14, label %body11, label %after12
body11:
  br label %head15
head15:
  %i18 = phi i64 [ 0, %body11 ], [ %v41, %after22 ]
  %v19 = icmp slt i64 %i18, 4
  br i1 %v19, label %body16, label %after17
body16:
  br label %head20
head20:
  %i23 = phi i64 [ 0, %body16 ], [ %v40, %after27 ]
  %v24 = icmp slt i64 %i23, 4
  br i1 %v24, label %body21, label %after22
body21:
  br label %head25
head25:
  %i28 = phi i64 [ 0, %body21 ], [ %v39, %body26 ]
  %v29 = icmp slt i64 %i28, 3
  br i1 %v29, label %body26, label %after27
body26:
  ; S0: O(n,f,h,w) = B(f)
  %v30 = getelementptr float, ptr %v6, i64 %i18
  %v31 = load float, ptr %v30, align 4
  %v32 = mul i64 %i13, 4
  %v33 = add i64 %v32, %i18
  %v34 = mul i64 %v33, 4
  %v35 = add i64 %v34, %i23
  %v36 = mul i64 %v35, 3
  %v37 = add i64 %v36, %i28
  %v38 = getelementptr float, ptr %v8, i64 %v37
  store float %v31, ptr %v38, align 4
  %v39 = add nsw i64 %i28, 1
  br label %head25
after27:
  %v40 = add nsw i64 %i23, 1
  br label %head20
after22:
  %v41 = add nsw i64 %i18, 1
  br label %head15
after17:
  %v42 = add nsw i64 %i13, 1
  br label %head10
after12:
  br label %head43
head43:
  %i46 = phi i64 [ 0, %after12 ], [ %v114, %after50 ]
  %v47 = icmp slt i64 %i46, 2
  br i1 %v47, label %body44, label %after45
body44:
  br label %head48
head48:
  %i51 = phi i64 [ 0, %body44 ], [ %v113, %after55 ]
  %v52 = icmp slt i64 %i51, 4
  br i1 %v52, label %body49, label %after50
body49:
  br label %head53
head53:
  %i56 = phi i64 [ 0, %body49 ], [ %v112, %after60 ]
  %v57 = icmp slt i64 %i56, 4
  br i1 %v57, label %body54, label %after55
body54:
  br label %head58
head58:
  %i61 = phi i64 [ 0, %body54 ], [ %v111, %after65 ]
  %v62 = icmp slt i64 %i61, 3
  br i1 %v62, label %body59, label %after60
body59:
  br label %head63
head63:
  %i66 = phi i64 [ 0, %body59 ], [ %v110, %after70 ]
  %v67 = icmp slt i64 %i66, 3
  br i1 %v67, label %body64, label %after65
body64:
  br label %head68
head68:
  %i71 = phi i64 [ 0, %body64 ], [ %v109, %after75 ]
  %v72 = icmp slt i64 %i71, 3
  br i1 %v72, label %body69, label %after70
body69:
  br label %head73
head73:
  %i76 = phi i64 [ 0, %body69 ], [ %v108, %body74 ]
  %v77 = icmp slt i64 %i76, 2
  br i1 %v77, label %body74, label %after75
body74:
  ; S1: O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw)
  %v78 = mul i64 2, %i56
  %v79 = add i64 %v78, %i71
  %v80 = mul i64 3, %i61
  %v81 = add i64 %v80, %i76
  %v82 = mul i64 %i46, 3
  %v83 = add i64 %v82, %i66
  %v84 = mul i64 %v83, 9
  %v85 = add i64 %v84, %v79
  %v86 = mul i64 %v85, 10
  %v87 = add i64 %v86, %v81
  %v88 = getelementptr float, ptr %v2, i64 %v87
  %v89 = load float, ptr %v88, align 4
  %v90 = mul i64 %i51, 3
  %v91 = add i64 %v90, %i66
  %v92 = mul i64 %v91, 3
  %v93 = add i64 %v92, %i71
  %v94 = mul i64 %v93, 2
  %v95 = add i64 %v94, %i76
  %v96 = getelementptr float, ptr %v4, i64 %v95
  %v97 = load float, ptr %v96, align 4
  %v98 = fmul float %v89, %v97
  %v99 = mul i64 %i46, 4
  %v100 = add i64 %v99, %i51
  %v101 = mul i64 %v100, 4
  %v102 = add i64 %v101, %i56
  %v103 = mul i64 %v102, 3
  %v104 = add i64 %v103, %i61
  %v105 = getelementptr float, ptr %v8, i64 %v104
  %v106 = load float, ptr %v105, align 4
  %v107 = fadd float %v106, %v98
  store float %v107, ptr %v105, align 4
  %v108 = add nsw i64 %i76, 1
  br label %head73
after75:
  %v109 = add nsw i64 %i71, 1
  br label %head68
after70:
  %v110 = add nsw i64 %i66, 1
  br label %head63
after65:
  %v111 = add nsw i64 %i61, 1
  br label %head58
after60:
  %v112 = add nsw i64 %i56, 1
  br label %head53
after55:
  %v113 = add nsw i64 %i51, 1
  br label %head48
after50:
  %v114 = add nsw i64 %i46, 1
  br label %head43
after45:
  ret i32 0
}

