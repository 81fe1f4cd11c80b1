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
  %i17 = phi i64 [ 0, %entry ], [ %v36, %after29 ]
  %v18 = icmp slt i64 %i17, 3
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
  %i30 = phi i64 [ 0, %go23 ], [ %v35, %body28 ]
  %v31 = icmp slt i64 %i30, 4
  br i1 %v31, label %body28, label %after29
body28:
  ; S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element
  %v32 = mul i64 %i17, 4
  %v33 = add i64 %v32, %i30
  %v34 = getelementptr float, ptr %v10, i64 %v33
  store float 0x0000000000000000, ptr %v34, align 4
  %v35 = add nsw i64 %i30, 1
  br label %head27
after29:
  %v36 = add nsw i64 %i17, 1
  br label %head14
after16:
  br label %head37
head37:
  %i40 = phi i64 [ 0, %after16 ], [ %v94, %after52 ]
  %v41 = icmp slt i64 %i40, 3
  br i1 %v41, label %body38, label %after39
body38:
  %v42 = call ptr @tc_signals()
  %v43 = load volatile i32, ptr %v42, align 4
  %v47 = icmp eq i32 %v43, 0
  br i1 %v47, label %go46, label %signal44
signal44:
  %v48 = call i32 @tc_interrupted()
  %v49 = icmp eq i32 %v48, 0
  br i1 %v49, label %go46, label %stop45
stop45:
  ret i32 1
go46:
  br label %head50
head50:
  %i53 = phi i64 [ 0, %go46 ], [ %v93, %after65 ]
  %v54 = icmp slt i64 %i53, 4
  br i1 %v54, label %body51, label %after52
body51:
  %v55 = call ptr @tc_signals()
  %v56 = load volatile i32, ptr %v55, align 4
  %v60 = icmp eq i32 %v56, 0
  br i1 %v60, label %go59, label %signal57
signal57:
  %v61 = call i32 @tc_interrupted()
  %v62 = icmp eq i32 %v61, 0
  br i1 %v62, label %go59, label %stop58
stop58:
  ret i32 1
go59:
  br label %head63
head63:
  %i66 = phi i64 [ 0, %go59 ], [ %v92, %inside73 ]
  %v67 = icmp slt i64 %i66, 5
  br i1 %v67, label %body64, label %after65
body64:
  ; S1: O1(i,j) +=! LUT1(I1(i,k),j)
  %v68 = mul i64 %i40, 5
  %v69 = add i64 %v68, %i66
  %v70 = getelementptr i32, ptr %v4, i64 %v69
  %v71 = load i32, ptr %v70, align 4
  %v72 = sext i32 %v71 to i64
  %v75 = icmp ult i64 %v72, 10
  br i1 %v75, label %inside73, label %outside74
outside74:
  %v76 = getelementptr i64, ptr %error, i64 0
  store i64 2, ptr %v76
  %v77 = getelementptr i64, ptr %error, i64 1
  store i64 %v72, ptr %v77
  %v78 = getelementptr i64, ptr %error, i64 2
  store i64 3, ptr %v78
  %v79 = getelementptr i64, ptr %error, i64 3
  store i64 %i40, ptr %v79
  %v80 = getelementptr i64, ptr %error, i64 4
  store i64 %i53, ptr %v80
  %v81 = getelementptr i64, ptr %error, i64 5
  store i64 %i66, ptr %v81
  %v82 = getelementptr i64, ptr %error, i64 6
  store i64 0, ptr %v82
  ret i32 1
inside73:
  %v83 = mul i64 %v72, 4
  %v84 = add i64 %v83, %i53
  %v85 = getelementptr float, ptr %v2, i64 %v84
  %v86 = load float, ptr %v85, align 4
  %v87 = mul i64 %i40, 4
  %v88 = add i64 %v87, %i53
  %v89 = getelementptr float, ptr %v10, i64 %v88
  %v90 = load float, ptr %v89, align 4
  %v91 = fadd float %v90, %v86
  store float %v91, ptr %v89, align 4
  %v92 = add nsw i64 %i66, 1
  br label %head63
after65:
  %v93 = add nsw i64 %i53, 1
  br label %head50
after52:
  %v94 = add nsw i64 %i40, 1
  br label %head37
after39:
  br label %head95
head95:
  %i98 = phi i64 [ 0, %after39 ], [ %v117, %after110 ]
  %v99 = icmp slt i64 %i98, 3
  br i1 %v99, label %body96, label %after97
body96:
  %v100 = call ptr @tc_signals()
  %v101 = load volatile i32, ptr %v100, align 4
  %v105 = icmp eq i32 %v101, 0
  br i1 %v105, label %go104, label %signal102
signal102:
  %v106 = call i32 @tc_interrupted()
  %v107 = icmp eq i32 %v106, 0
  br i1 %v107, label %go104, label %stop103
stop103:
  ret i32 1
go104:
  br label %head108
head108:
  %i111 = phi i64 [ 0, %go104 ], [ %v116, %body109 ]
  %v112 = icmp slt i64 %i111, 4
  br i1 %v112, label %body109, label %after110
body109:
  ; S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element
  %v113 = mul i64 %i98, 4
  %v114 = add i64 %v113, %i111
  %v115 = getelementptr float, ptr %v12, i64 %v114
  store float 0x0000000000000000, ptr %v115, align 4
  %v116 = add nsw i64 %i111, 1
  br label %head108
after110:
  %v117 = add nsw i64 %i98, 1
  br label %head95
after97:
  br label %head118
head118:
  %i121 = phi i64 [ 0, %after97 ], [ %v175, %after133 ]
  %v122 = icmp slt i64 %i121, 3
  br i1 %v122, label %body119, label %after120
body119:
  %v123 = call ptr @tc_signals()
  %v124 = load volatile i32, ptr %v123, align 4
  %v128 = icmp eq i32 %v124, 0
  br i1 %v128, label %go127, label %signal125
signal125:
  %v129 = call i32 @tc_interrupted()
  %v130 = icmp eq i32 %v129, 0
  br i1 %v130, label %go127, label %stop126
stop126:
  ret i32 1
go127:
  br label %head131
head131:
  %i134 = phi i64 [ 0, %go127 ], [ %v174, %after146 ]
  %v135 = icmp slt i64 %i134, 4
  br i1 %v135, label %body132, label %after133
body132:
  %v136 = call ptr @tc_signals()
  %v137 = load volatile i32, ptr %v136, align 4
  %v141 = icmp eq i32 %v137, 0
  br i1 %v141, label %go140, label %signal138
signal138:
  %v142 = call i32 @tc_interrupted()
  %v143 = icmp eq i32 %v142, 0
  br i1 %v143, label %go140, label %stop139
stop139:
  ret i32 1
go140:
  br label %head144
head144:
  %i147 = phi i64 [ 0, %go140 ], [ %v173, %inside154 ]
  %v148 = icmp slt i64 %i147, 6
  br i1 %v148, label %body145, label %after146
body145:
  ; S3: O2(i,j) +=! LUT2(I2(i,k),j)
  %v149 = mul i64 %i121, 6
  %v150 = add i64 %v149, %i147
  %v151 = getelementptr i32, ptr %v8, i64 %v150
  %v152 = load i32, ptr %v151, align 4
  %v153 = sext i32 %v152 to i64
  %v156 = icmp ult i64 %v153, 11
  br i1 %v156, label %inside154, label %outside155
outside155:
  %v157 = getelementptr i64, ptr %error, i64 0
  store i64 4, ptr %v157
  %v158 = getelementptr i64, ptr %error, i64 1
  store i64 %v153, ptr %v158
  %v159 = getelementptr i64, ptr %error, i64 2
  store i64 3, ptr %v159
  %v160 = getelementptr i64, ptr %error, i64 3
  store i64 %i121, ptr %v160
  %v161 = getelementptr i64, ptr %error, i64 4
  store i64 %i134, ptr %v161
  %v162 = getelementptr i64, ptr %error, i64 5
  store i64 %i147, ptr %v162
  %v163 = getelementptr i64, ptr %error, i64 6
  store i64 0, ptr %v163
  ret i32 1
inside154:
  %v164 = mul i64 %v153, 4
  %v165 = add i64 %v164, %i134
  %v166 = getelementptr float, ptr %v6, i64 %v165
  %v167 = load float, ptr %v166, align 4
  %v168 = mul i64 %i121, 4
  %v169 = add i64 %v168, %i134
  %v170 = getelementptr float, ptr %v12, i64 %v169
  %v171 = load float, ptr %v170, align 4
  %v172 = fadd float %v171, %v167
  store float %v172, ptr %v170, align 4
  %v173 = add nsw i64 %i147, 1
  br label %head144
after146:
  %v174 = add nsw i64 %i134, 1
  br label %head131
after133:
  %v175 = add nsw i64 %i121, 1
  br label %head118
after120:
  ret i32 0
}

declare i32 @tc_interrupted()
declare ptr @tc_signals()
