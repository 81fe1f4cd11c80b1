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
  %i13 = phi i64 [ 0, %entry ], [ %v66, %after25 ]
  %v14 = icmp slt i64 %i13, 2
  br i1 %v14, label %body11, label %after12
body11:
  %v15 = call ptr @tc_signals()
  %v16 = load volatile i32, ptr %v15, align 4
  %v20 = icmp eq i32 %v16, 0
  br i1 %v20, label %go19, label %signal17
signal17:
  %v21 = call i32 @tc_interrupted()
  %v22 = icmp eq i32 %v21, 0
  br i1 %v22, label %go19, label %stop18
stop18:
  ret i32 1
go19:
  br label %head23
head23:
  %i26 = phi i64 [ 0, %go19 ], [ %v65, %after38 ]
  %v27 = icmp slt i64 %i26, 4
  br i1 %v27, label %body24, label %after25
body24:
  %v28 = call ptr @tc_signals()
  %v29 = load volatile i32, ptr %v28, align 4
  %v33 = icmp eq i32 %v29, 0
  br i1 %v33, label %go32, label %signal30
signal30:
  %v34 = call i32 @tc_interrupted()
  %v35 = icmp eq i32 %v34, 0
  br i1 %v35, label %go32, label %stop31
stop31:
  ret i32 1
go32:
  br label %head36
head36:
  %i39 = phi i64 [ 0, %go32 ], [ %v64, %after51 ]
  %v40 = icmp slt i64 %i39, 4
  br i1 %v40, label %body37, label %after38
body37:
  %v41 = call ptr @tc_signals()
  %v42 = load volatile i32, ptr %v41, align 4
  %v46 = icmp eq i32 %v42, 0
  br i1 %v46, label %go45, label %signal43
signal43:
  %v47 = call i32 @tc_interrupted()
  %v48 = icmp eq i32 %v47, 0
  br i1 %v48, label %go45, label %stop44
stop44:
  ret i32 1
go45:
  br label %head49
head49:
  %i52 = phi i64 [ 0, %go45 ], [ %v63, %body50 ]
  %v53 = icmp slt i64 %i52, 3
  br i1 %v53, label %body50, label %after51
body50:
  ; S0: O(n,f,h,w) = B(f)
  %v54 = getelementptr float, ptr %v6, i64 %i26
  %v55 = load float, ptr %v54, align 4
  %v56 = mul i64 %i13, 4
  %v57 = add i64 %v56, %i26
  %v58 = mul i64 %v57, 4
  %v59 = add i64 %v58, %i39
  %v60 = mul i64 %v59, 3
  %v61 = add i64 %v60, %i52
  %v62 = getelementptr float, ptr %v8, i64 %v61
  store float %v55, ptr %v62, align 4
  %v63 = add nsw i64 %i52, 1
  br label %head49
after51:
  %v64 = add nsw i64 %i39, 1
  br label %head36
after38:
  %v65 = add nsw i64 %i26, 1
  br label %head23
after25:
  %v66 = add nsw i64 %i13, 1
  br label %head10
after12:
  br label %head67
head67:
  %i70 = phi i64 [ 0, %after12 ], [ %v186, %after82 ]
  %v71 = icmp slt i64 %i70, 2
  br i1 %v71, label %body68, label %after69
body68:
  %v72 = call ptr @tc_signals()
  %v73 = load volatile i32, ptr %v72, align 4
  %v77 = icmp eq i32 %v73, 0
  br i1 %v77, label %go76, label %signal74
signal74:
  %v78 = call i32 @tc_interrupted()
  %v79 = icmp eq i32 %v78, 0
  br i1 %v79, label %go76, label %stop75
stop75:
  ret i32 1
go76:
  br label %head80
head80:
  %i83 = phi i64 [ 0, %go76 ], [ %v185, %after95 ]
  %v84 = icmp slt i64 %i83, 4
  br i1 %v84, label %body81, label %after82
body81:
  %v85 = call ptr @tc_signals()
  %v86 = load volatile i32, ptr %v85, align 4
  %v90 = icmp eq i32 %v86, 0
  br i1 %v90, label %go89, label %signal87
signal87:
  %v91 = call i32 @tc_interrupted()
  %v92 = icmp eq i32 %v91, 0
  br i1 %v92, label %go89, label %stop88
stop88:
  ret i32 1
go89:
  br label %head93
head93:
  %i96 = phi i64 [ 0, %go89 ], [ %v184, %after108 ]
  %v97 = icmp slt i64 %i96, 4
  br i1 %v97, label %body94, label %after95
body94:
  %v98 = call ptr @tc_signals()
  %v99 = load volatile i32, ptr %v98, align 4
  %v103 = icmp eq i32 %v99, 0
  br i1 %v103, label %go102, label %signal100
signal100:
  %v104 = call i32 @tc_interrupted()
  %v105 = icmp eq i32 %v104, 0
  br i1 %v105, label %go102, label %stop101
stop101:
  ret i32 1
go102:
  br label %head106
head106:
  %i109 = phi i64 [ 0, %go102 ], [ %v183, %after121 ]
  %v110 = icmp slt i64 %i109, 3
  br i1 %v110, label %body107, label %after108
body107:
  %v111 = call ptr @tc_signals()
  %v112 = load volatile i32, ptr %v111, align 4
  %v116 = icmp eq i32 %v112, 0
  br i1 %v116, label %go115, label %signal113
signal113:
  %v117 = call i32 @tc_interrupted()
  %v118 = icmp eq i32 %v117, 0
  br i1 %v118, label %go115, label %stop114
stop114:
  ret i32 1
go115:
  br label %head119
head119:
  %i122 = phi i64 [ 0, %go115 ], [ %v182, %after134 ]
  %v123 = icmp slt i64 %i122, 3
  br i1 %v123, label %body120, label %after121
body120:
  %v124 = call ptr @tc_signals()
  %v125 = load volatile i32, ptr %v124, align 4
  %v129 = icmp eq i32 %v125, 0
  br i1 %v129, label %go128, label %signal126
signal126:
  %v130 = call i32 @tc_interrupted()
  %v131 = icmp eq i32 %v130, 0
  br i1 %v131, label %go128, label %stop127
stop127:
  ret i32 1
go128:
  br label %head132
head132:
  %i135 = phi i64 [ 0, %go128 ], [ %v181, %after147 ]
  %v136 = icmp slt i64 %i135, 3
  br i1 %v136, label %body133, label %after134
body133:
  %v137 = call ptr @tc_signals()
  %v138 = load volatile i32, ptr %v137, align 4
  %v142 = icmp eq i32 %v138, 0
  br i1 %v142, label %go141, label %signal139
signal139:
  %v143 = call i32 @tc_interrupted()
  %v144 = icmp eq i32 %v143, 0
  br i1 %v144, label %go141, label %stop140
stop140:
  ret i32 1
go141:
  br label %head145
head145:
  %i148 = phi i64 [ 0, %go141 ], [ %v180, %body146 ]
  %v149 = icmp slt i64 %i148, 2
  br i1 %v149, label %body146, label %after147
body146:
  ; S1: O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw)
  %v150 = mul i64 2, %i96
  %v151 = add i64 %v150, %i135
  %v152 = mul i64 3, %i109
  %v153 = add i64 %v152, %i148
  %v154 = mul i64 %i70, 3
  %v155 = add i64 %v154, %i122
  %v156 = mul i64 %v155, 9
  %v157 = add i64 %v156, %v151
  %v158 = mul i64 %v157, 10
  %v159 = add i64 %v158, %v153
  %v160 = getelementptr float, ptr %v2, i64 %v159
  %v161 = load float, ptr %v160, align 4
  %v162 = mul i64 %i83, 3
  %v163 = add i64 %v162, %i122
  %v164 = mul i64 %v163, 3
  %v165 = add i64 %v164, %i135
  %v166 = mul i64 %v165, 2
  %v167 = add i64 %v166, %i148
  %v168 = getelementptr float, ptr %v4, i64 %v167
  %v169 = load float, ptr %v168, align 4
  %v170 = fmul float %v161, %v169
  %v171 = mul i64 %i70, 4
  %v172 = add i64 %v171, %i83
  %v173 = mul i64 %v172, 4
  %v174 = add i64 %v173, %i96
  %v175 = mul i64 %v174, 3
  %v176 = add i64 %v175, %i109
  %v177 = getelementptr float, ptr %v8, i64 %v176
  %v178 = load float, ptr %v177, align 4
  %v179 = fadd float %v178, %v170
  store float %v179, ptr %v177, align 4
  %v180 = add nsw i64 %i148, 1
  br label %head145
after147:
  %v181 = add nsw i64 %i135, 1
  br label %head132
after134:
  %v182 = add nsw i64 %i122, 1
  br label %head119
after121:
  %v183 = add nsw i64 %i109, 1
  br label %head106
after108:
  %v184 = add nsw i64 %i96, 1
  br label %head93
after95:
  %v185 = add nsw i64 %i83, 1
  br label %head80
after82:
  %v186 = add nsw i64 %i70, 1
  br label %head67
after69:
  ret i32 0
}

declare i32 @tc_interrupted()
declare ptr @tc_signals()
