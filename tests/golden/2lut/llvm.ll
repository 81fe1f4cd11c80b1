; 2LUT
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
  %v10 = load ptr, ptr %v9
  %v11 = getelementptr ptr, ptr %args, i64 5
  %v12 = load ptr, ptr %v11
  %v13 = getelementptr ptr, ptr %args, i64 6
  %error = load ptr, ptr %v13
  br label %head14
head14:
  %i17 = phi i64 [ 0, %entry ], [ %v28, %after21 ]
  %v18 = icmp slt i64 %i17, 3
  br i1 %v18, label %body15, label %after16
body15:
  br label %head19
head19:
  %i22 = phi i64 [ 0, %body15 ], [ %v27, %body20 ]
  %v23 = icmp slt i64 %i22, 4
  br i1 %v23, label %body20, label %after21
body20:
  ; S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element
  %v24 = mul i64 %i17, 4
  %v25 = add i64 %v24, %i22
  %v26 = getelementptr float, ptr %v10, i64 %v25
  store float 0x0000000000000000, ptr %v26, align 4
  %v27 = add nsw i64 %i22, 1
  br label %head19
after21:
  %v28 = add nsw i64 %i17, 1
  br label %head14
after16:
  br label %head29
head29:
  %i32 = phi i64 [ 0, %after16 ], [ %v70, %after36 ]
  %v33 = icmp slt i64 %i32, 3
  br i1 %v33, label %body30, label %after31
body30:
  br label %head34
head34:
  %i37 = phi i64 [ 0, %body30 ], [ %v69, %after41 ]
  %v38 = icmp slt i64 %i37, 4
  br i1 %v38, label %body35, label %after36
body35:
  br label %head39
head39:
  %i42 = phi i64 [ 0, %body35 ], [ %v68, %inside49 ]
  %v43 = icmp slt i64 %i42, 5
  br i1 %v43, label %body40, label %after41
body40:
  ; S1: O1(i,j) +=! LUT1(I1(i,k),j)
  %v44 = mul i64 %i32, 5
  %v45 = add i64 %v44, %i42
  %v46 = getelementptr i32, ptr %v4, i64 %v45
  %v47 = load i32, ptr %v46, align 4
  %v48 = sext i32 %v47 to i64
  %v51 = icmp ult i64 %v48, 10
  br i1 %v51, label %inside49, label %outside50
outside50:
  %v52 = getelementptr i64, ptr %error, i64 0
  store i64 2, ptr %v52
  %v53 = getelementptr i64, ptr %error, i64 1
  store i64 %v48, ptr %v53
  %v54 = getelementptr i64, ptr %error, i64 2
  store i64 3, ptr %v54
  %v55 = getelementptr i64, ptr %error, i64 3
  store i64 %i32, ptr %v55
  %v56 = getelementptr i64, ptr %error, i64 4
  store i64 %i37, ptr %v56
  %v57 = getelementptr i64, ptr %error, i64 5
  store i64 %i42, ptr %v57
  %v58 = getelementptr i64, ptr %error, i64 6
  store i64 0, ptr %v58
  ret i32 1
inside49:
  %v59 = mul i64 %v48, 4
  %v60 = add i64 %v59, %i37
  %v61 = getelementptr float, ptr %v2, i64 %v60
  %v62 = load float, ptr %v61, align 4
  %v63 = mul i64 %i32, 4
  %v64 = add i64 %v63, %i37
  %v65 = getelementptr float, ptr %v10, i64 %v64
  %v66 = load float, ptr %v65, align 4
  %v67 = fadd float %v66, %v62
  store float %v67, ptr %v65, align 4
  %v68 = add nsw i64 %i42, 1
  br label %head39
after41:
  %v69 = add nsw i64 %i37, 1
  br label %head34
after36:
  %v70 = add nsw i64 %i32, 1
  br label %head29
after31:
  br label %head71
head71:
  %i74 = phi i64 [ 0, %after31 ], [ %v85, %after78 ]
  %v75 = icmp slt i64 %i74, 3
  br i1 %v75, label %body72, label %after73
body72:
  br label %head76
head76:
  %i79 = phi i64 [ 0, %body72 ], [ %v84, %body77 ]
  %v80 = icmp slt i64 %i79, 4
  br i1 %v80, label %body77, label %after78
body77:
  ; S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element
  %v81 = mul i64 %i74, 4
  %v82 = add i64 %v81, %i79
  %v83 = getelementptr float, ptr %v12, i64 %v82
  store float 0x0000000000000000, ptr %v83, align 4
  %v84 = add nsw i64 %i79, 1
  br label %head76
after78:
  %v85 = add nsw i64 %i74, 1
  br label %head71
after73:
  br label %head86
head86:
  %i89 = phi i64 [ 0, %after73 ], [ %v127, %after93 ]
  %v90 = icmp slt i64 %i89, 3
  br i1 %v90, label %body87, label %after88
body87:
  br label %head91
head91:
  %i94 = phi i64 [ 0, %body87 ], [ %v126, %after98 ]
  %v95 = icmp slt i64 %i94, 4
  br i1 %v95, label %body92, label %after93
body92:
  br label %head96
head96:
  %i99 = phi i64 [ 0, %body92 ], [ %v125, %inside106 ]
  %v100 = icmp slt i64 %i99, 6
  br i1 %v100, label %body97, label %after98
body97:
  ; S3: O2(i,j) +=! LUT2(I2(i,k),j)
  %v101 = mul i64 %i89, 6
  %v102 = add i64 %v101, %i99
  %v103 = getelementptr i32, ptr %v8, i64 %v102
  %v104 = load i32, ptr %v103, align 4
  %v105 = sext i32 %v104 to i64
  %v108 = icmp ult i64 %v105, 11
  br i1 %v108, label %inside106, label %outside107
outside107:
  %v109 = getelementptr i64, ptr %error, i64 0
  store i64 4, ptr %v109
  %v110 = getelementptr i64, ptr %error, i64 1
  store i64 %v105, ptr %v110
  %v111 = getelementptr i64, ptr %error, i64 2
  store i64 3, ptr %v111
  %v112 = getelementptr i64, ptr %error, i64 3
  store i64 %i89, ptr %v112
  %v113 = getelementptr i64, ptr %error, i64 4
  store i64 %i94, ptr %v113
  %v114 = getelementptr i64, ptr %error, i64 5
  store i64 %i99, ptr %v114
  %v115 = getelementptr i64, ptr %error, i64 6
  store i64 0, ptr %v115
  ret i32 1
inside106:
  %v116 = mul i64 %v105, 4
  %v117 = add i64 %v116, %i94
  %v118 = getelementptr float, ptr %v6, i64 %v117
  %v119 = load float, ptr %v118, align 4
  %v120 = mul i64 %i89, 4
  %v121 = add i64 %v120, %i94
  %v122 = getelementptr float, ptr %v12, i64 %v121
  %v123 = load float, ptr %v122, align 4
  %v124 = fadd float %v123, %v119
  store float %v124, ptr %v122, align 4
  %v125 = add nsw i64 %i99, 1
  br label %head96
after98:
  %v126 = add nsw i64 %i94, 1
  br label %head91
after93:
  %v127 = add nsw i64 %i89, 1
  br label %head86
after88:
  ret i32 0
}

