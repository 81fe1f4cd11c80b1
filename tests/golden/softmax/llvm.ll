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
  %i19 = phi i64 [ 0, %after11 ], [ %v42, %after31 ]
  %v20 = icmp slt i64 %i19, 3
  br i1 %v20, label %body17, label %after18
body17:
  %v21 = call ptr @tc_signals()
  %v22 = load volatile i32, ptr %v21, align 4
  %v26 = icmp eq i32 %v22, 0
  br i1 %v26, label %go25, label %signal23
signal23:
  %v27 = call i32 @tc_interrupted()
  %v28 = icmp eq i32 %v27, 0
  br i1 %v28, label %go25, label %stop24
stop24:
  ret i32 1
go25:
  br label %head29
head29:
  %i32 = phi i64 [ 0, %go25 ], [ %v41, %body30 ]
  %v33 = icmp slt i64 %i32, 7
  br i1 %v33, label %body30, label %after31
body30:
  ; S1: tmp(n) max=! I(n,d)
  %v34 = mul i64 %i19, 7
  %v35 = add i64 %v34, %i32
  %v36 = getelementptr float, ptr %v2, i64 %v35
  %v37 = load float, ptr %v36, align 4
  %v38 = getelementptr float, ptr %v8, i64 %i19
  %v39 = load float, ptr %v38, align 4
  %v40 = call float @llvm.maximum.f32(float %v39, float %v37)
  store float %v40, ptr %v38, align 4
  %v41 = add nsw i64 %i32, 1
  br label %head29
after31:
  %v42 = add nsw i64 %i19, 1
  br label %head16
after18:
  br label %head43
head43:
  %i46 = phi i64 [ 0, %after18 ], [ %v73, %after58 ]
  %v47 = icmp slt i64 %i46, 3
  br i1 %v47, label %body44, label %after45
body44:
  %v48 = call ptr @tc_signals()
  %v49 = load volatile i32, ptr %v48, align 4
  %v53 = icmp eq i32 %v49, 0
  br i1 %v53, label %go52, label %signal50
signal50:
  %v54 = call i32 @tc_interrupted()
  %v55 = icmp eq i32 %v54, 0
  br i1 %v55, label %go52, label %stop51
stop51:
  ret i32 1
go52:
  br label %head56
head56:
  %i59 = phi i64 [ 0, %go52 ], [ %v72, %body57 ]
  %v60 = icmp slt i64 %i59, 7
  br i1 %v60, label %body57, label %after58
body57:
  ; S2: O(n,d) = exp(I(n,d) - tmp(n))
  %v61 = mul i64 %i46, 7
  %v62 = add i64 %v61, %i59
  %v63 = getelementptr float, ptr %v2, i64 %v62
  %v64 = load float, ptr %v63, align 4
  %v65 = getelementptr float, ptr %v8, i64 %i46
  %v66 = load float, ptr %v65, align 4
  %v67 = fsub float %v64, %v66
  %v68 = call float @expf(float %v67)
  %v69 = mul i64 %i46, 7
  %v70 = add i64 %v69, %i59
  %v71 = getelementptr float, ptr %v4, i64 %v70
  store float %v68, ptr %v71, align 4
  %v72 = add nsw i64 %i59, 1
  br label %head56
after58:
  %v73 = add nsw i64 %i46, 1
  br label %head43
after45:
  br label %head74
head74:
  %i77 = phi i64 [ 0, %after45 ], [ %v80, %body75 ]
  %v78 = icmp slt i64 %i77, 3
  br i1 %v78, label %body75, label %after76
body75:
  ; S3: tmp(n) +=! O(n,d) # starts from the neutral element
  %v79 = getelementptr float, ptr %v8, i64 %i77
  store float 0x0000000000000000, ptr %v79, align 4
  %v80 = add nsw i64 %i77, 1
  br label %head74
after76:
  br label %head81
head81:
  %i84 = phi i64 [ 0, %after76 ], [ %v107, %after96 ]
  %v85 = icmp slt i64 %i84, 3
  br i1 %v85, label %body82, label %after83
body82:
  %v86 = call ptr @tc_signals()
  %v87 = load volatile i32, ptr %v86, align 4
  %v91 = icmp eq i32 %v87, 0
  br i1 %v91, label %go90, label %signal88
signal88:
  %v92 = call i32 @tc_interrupted()
  %v93 = icmp eq i32 %v92, 0
  br i1 %v93, label %go90, label %stop89
stop89:
  ret i32 1
go90:
  br label %head94
head94:
  %i97 = phi i64 [ 0, %go90 ], [ %v106, %body95 ]
  %v98 = icmp slt i64 %i97, 7
  br i1 %v98, label %body95, label %after96
body95:
  ; S4: tmp(n) +=! O(n,d)
  %v99 = mul i64 %i84, 7
  %v100 = add i64 %v99, %i97
  %v101 = getelementptr float, ptr %v4, i64 %v100
  %v102 = load float, ptr %v101, align 4
  %v103 = getelementptr float, ptr %v8, i64 %i84
  %v104 = load float, ptr %v103, align 4
  %v105 = fadd float %v104, %v102
  store float %v105, ptr %v103, align 4
  %v106 = add nsw i64 %i97, 1
  br label %head94
after96:
  %v107 = add nsw i64 %i84, 1
  br label %head81
after83:
  br label %head108
head108:
  %i111 = phi i64 [ 0, %after83 ], [ %v137, %after123 ]
  %v112 = icmp slt i64 %i111, 3
  br i1 %v112, label %body109, label %after110
body109:
  %v113 = call ptr @tc_signals()
  %v114 = load volatile i32, ptr %v113, align 4
  %v118 = icmp eq i32 %v114, 0
  br i1 %v118, label %go117, label %signal115
signal115:
  %v119 = call i32 @tc_interrupted()
  %v120 = icmp eq i32 %v119, 0
  br i1 %v120, label %go117, label %stop116
stop116:
  ret i32 1
go117:
  br label %head121
head121:
  %i124 = phi i64 [ 0, %go117 ], [ %v136, %body122 ]
  %v125 = icmp slt i64 %i124, 7
  br i1 %v125, label %body122, label %after123
body122:
  ; S5: O(n,d) = O(n,d) / tmp(n)
  %v126 = mul i64 %i111, 7
  %v127 = add i64 %v126, %i124
  %v128 = getelementptr float, ptr %v4, i64 %v127
  %v129 = load float, ptr %v128, align 4
  %v130 = getelementptr float, ptr %v8, i64 %i111
  %v131 = load float, ptr %v130, align 4
  %v132 = fdiv float %v129, %v131
  %v133 = mul i64 %i111, 7
  %v134 = add i64 %v133, %i124
  %v135 = getelementptr float, ptr %v4, i64 %v134
  store float %v132, ptr %v135, align 4
  %v136 = add nsw i64 %i124, 1
  br label %head121
after123:
  %v137 = add nsw i64 %i111, 1
  br label %head108
after110:
  ret i32 0
}

declare float @expf(float)
declare float @llvm.maximum.f32(float, float)
declare i32 @tc_interrupted()
declare ptr @tc_signals()
