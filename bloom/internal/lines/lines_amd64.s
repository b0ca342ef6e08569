//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Eight lanes of 64 bits, one for each probe; the eighth is never looked at. The word of a probe in
// its line is its upper three bits, and the bit in the word its lower six: shifted to the right by
// these, a product has them at its lower end. VPERMQ and VPRORVQ look at no other bits.
DATA wordShifts<>+0x00(SB)/8, $61
DATA wordShifts<>+0x08(SB)/8, $52
DATA wordShifts<>+0x10(SB)/8, $43
DATA wordShifts<>+0x18(SB)/8, $34
DATA wordShifts<>+0x20(SB)/8, $25
DATA wordShifts<>+0x28(SB)/8, $16
DATA wordShifts<>+0x30(SB)/8, $7
DATA wordShifts<>+0x38(SB)/8, $0
GLOBL wordShifts<>(SB), NOPTR|RODATA, $64

DATA bitShifts<>+0x00(SB)/8, $55
DATA bitShifts<>+0x08(SB)/8, $46
DATA bitShifts<>+0x10(SB)/8, $37
DATA bitShifts<>+0x18(SB)/8, $28
DATA bitShifts<>+0x20(SB)/8, $19
DATA bitShifts<>+0x28(SB)/8, $10
DATA bitShifts<>+0x30(SB)/8, $1
DATA bitShifts<>+0x38(SB)/8, $0
GLOBL bitShifts<>(SB), NOPTR|RODATA, $64

DATA bit<>+0x00(SB)/8, $1
GLOBL bit<>(SB), NOPTR|RODATA, $8
DATA low5<>+0x00(SB)/4, $31
GLOBL low5<>(SB), NOPTR|RODATA, $4

// How many questions ahead a line is loaded.
#define AHEAD 16

// PLACE sets to to the offset of the line of the hash in from. It needs n in R8 and uses DX and AX.
#define PLACE(from, to) \
	MOVQ from, DX; \
	MULXQ R8, AX, to; \
	SHLQ $6, to

// FIRST prefetches the lines of the first hashes, up to AHEAD. BX is 0 after it.
#define FIRST \
first: \
	PLACE((SI)(BX*8), R14); \
	PREFETCHT0 (DI)(R14*1); \
	INCQ BX; \
	CMPQ BX, R9; \
	JGE  begin; \
	CMPQ BX, $AHEAD; \
	JLT  first; \
begin: \
	XORL BX, BX

// NEXT prefetches the line of the hash that is AHEAD of number BX, or of the last one. R9 is the
// number of hashes, R13 the number of the last.
#define NEXT \
	LEAQ AHEAD(BX), R12; \
	CMPQ R12, R13; \
	CMOVQGT R13, R12; \
	PLACE((SI)(R12*8), R14); \
	PREFETCHT0 (DI)(R14*1)

// TEST sets a bit of mask to for each probe that is not set. The product is in DX, the offset of the
// line in R14. with is the mask of the probes that count.
#define TEST(with, to) \
	VPBROADCASTQ DX, Z19; \
	VPSRLVQ Z16, Z19, Z20; \
	VPSRLVQ Z17, Z19, Z21; \
	VPERMQ (DI)(R14*1), Z20, Z20; \
	VPRORVQ Z21, Z20, Z20; \
	VPTESTNMQ Z18, Z20, with, to

// func hasManyAVX512(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)
//
// It uses registers from Z16 up only: these need no VZEROUPPER at the end.
TEXT ·hasManyAVX512(SB), NOSPLIT, $0-48
	MOVQ lines+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ k+16(FP), CX
	MOVQ hashes+24(FP), SI
	MOVQ count+32(FP), R9
	MOVQ out+40(FP), R10
	LEAQ -1(R9), R13
	VMOVDQU64 wordShifts<>(SB), Z16
	VMOVDQU64 bitShifts<>(SB), Z17
	VPBROADCASTQ bit<>(SB), Z18
	MOVQ $0x9e3779b97f4a7c15, R11
	XORL BX, BX
	FIRST
	CMPQ CX, $7
	JGT  second
	MOVL $0x7f, AX
	BZHIL CX, AX, AX
	KMOVW AX, K1 // the first k lanes
loop:
	NEXT
	PLACE((SI)(BX*8), R14)
	IMULQ R11, DX
	TEST(K1, K2)
	KORTESTW K2, K2
	SETEQ (R10)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	RET

second:
	MOVL $0x7f, AX
	KMOVW AX, K1
	SUBQ $7, CX
	BZHIL CX, AX, AX
	KMOVW AX, K2
	MOVQ $0xd6e8feb86659fd93, R15
loop2:
	NEXT
	PLACE((SI)(BX*8), R14)
	MOVQ DX, AX
	IMULQ R11, DX
	TEST(K1, K3)
	MOVQ AX, DX
	SHRQ $32, DX
	XORQ AX, DX
	IMULQ R15, DX
	TEST(K2, K4)
	KORTESTW K3, K4
	SETEQ (R10)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop2
	RET

// For AVX2 a lane has 32 bits. Even lanes are probes 0 to 3, odd ones 4 to 6: the lower nine bits of a
// lane become the number of the probe's bit. The last lane is never looked at.
DATA evenShifts<>+0x00(SB)/8, $55
DATA evenShifts<>+0x08(SB)/8, $46
DATA evenShifts<>+0x10(SB)/8, $37
DATA evenShifts<>+0x18(SB)/8, $28
GLOBL evenShifts<>(SB), NOPTR|RODATA, $32

DATA oddShifts<>+0x00(SB)/8, $13
DATA oddShifts<>+0x08(SB)/8, $22
DATA oddShifts<>+0x10(SB)/8, $31
DATA oddShifts<>+0x18(SB)/8, $0
GLOBL oddShifts<>(SB), NOPTR|RODATA, $32

// The number of the probe in each lane. The last lane has none.
DATA probes<>+0x00(SB)/4, $0
DATA probes<>+0x04(SB)/4, $4
DATA probes<>+0x08(SB)/4, $1
DATA probes<>+0x0c(SB)/4, $5
DATA probes<>+0x10(SB)/4, $2
DATA probes<>+0x14(SB)/4, $6
DATA probes<>+0x18(SB)/4, $3
DATA probes<>+0x1c(SB)/4, $0x7f
GLOBL probes<>(SB), NOPTR|RODATA, $32

// ONES sets to to 1 in the lanes of the first AX probes, and to 0 in the others.
#define ONES(to) \
	VMOVD AX, X0; \
	VPBROADCASTD X0, Y0; \
	VPCMPGTD probes<>(SB), Y0, to; \
	VPSRLD $31, to, to

// TEST2 sets the carry flag if all probes are set that ones has. The product is in DX, the
// offset of the line in R14. The upper bit of a probe's number says in which half of the line it lies.
#define TEST2(ones) \
	VMOVQ DX, X0; \
	VPBROADCASTQ X0, Y0; \
	VPSRLVQ Y8, Y0, Y1; \
	VPSLLVQ Y9, Y0, Y2; \
	VPBLENDD $0xaa, Y2, Y1, Y1; \
	VPSRLD $5, Y1, Y2; \
	VPSLLD $23, Y1, Y3; \
	VPAND Y10, Y1, Y1; \
	VPERMD (DI)(R14*1), Y2, Y4; \
	VPERMD 32(DI)(R14*1), Y2, Y5; \
	VPSLLVD Y1, ones, Y1; \
	VBLENDVPS Y3, Y5, Y4, Y4; \
	VPTEST Y1, Y4

// func hasManyAVX2(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)
TEXT ·hasManyAVX2(SB), NOSPLIT, $0-48
	MOVQ lines+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ k+16(FP), CX
	MOVQ hashes+24(FP), SI
	MOVQ count+32(FP), R9
	MOVQ out+40(FP), R10
	LEAQ -1(R9), R13
	VMOVDQU evenShifts<>(SB), Y8
	VMOVDQU oddShifts<>(SB), Y9
	VPBROADCASTD low5<>(SB), Y10
	MOVQ CX, AX
	ONES(Y11)
	MOVQ $0x9e3779b97f4a7c15, R11
	XORL BX, BX
	FIRST
	CMPQ CX, $7
	JGT  second
loop:
	NEXT
	PLACE((SI)(BX*8), R14)
	IMULQ R11, DX
	TEST2(Y11)
	SETCS (R10)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	VZEROUPPER
	RET

second:
	MOVL $7, AX
	ONES(Y11)
	LEAQ -7(CX), AX
	ONES(Y12)
	MOVQ $0xd6e8feb86659fd93, R15
loop2:
	NEXT
	PLACE((SI)(BX*8), R14)
	MOVQ DX, CX
	IMULQ R11, DX
	TEST2(Y11)
	SETCS AX
	MOVQ CX, DX
	SHRQ $32, DX
	XORQ CX, DX
	IMULQ R15, DX
	TEST2(Y12)
	SETCS DX
	ANDL DX, AX
	MOVB AX, (R10)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop2
	VZEROUPPER
	RET

// SPLITBITS sets Y2 to the bits of the hash in from. Y8 has the salt, and Y9 a 1 in each lane.
#define SPLITBITS(from) \
	VPBROADCASTD from, Y2; \
	VPMULLD Y8, Y2, Y2; \
	VPSRLD $27, Y2, Y2; \
	VPSLLVD Y2, Y9, Y2

// SPLITPLACE sets to to the offset of the block of the hash in from. R8 is the number of blocks.
#define SPLITPLACE(from, to) \
	MOVQ from, to; \
	SHRQ $32, to; \
	IMULQ R8, to; \
	SHRQ $32, to; \
	SHLQ $5, to

// SPLITNEXT is NEXT for blocks.
#define SPLITNEXT \
	LEAQ AHEAD(BX), R12; \
	CMPQ R12, R13; \
	CMOVQGT R13, R12; \
	SPLITPLACE((SI)(R12*8), R14); \
	PREFETCHT0 (DI)(R14*1)

// SPLITFIRST loads what all keys need, and prefetches the first blocks.
#define SPLITFIRST \
	LEAQ -1(R9), R13; \
	VMOVDQU ·salt(SB), Y8; \
	VPBROADCASTD bit<>(SB), Y9; \
	XORL BX, BX; \
first: \
	SPLITPLACE((SI)(BX*8), R14); \
	PREFETCHT0 (DI)(R14*1); \
	INCQ BX; \
	CMPQ BX, R9; \
	JGE  begin; \
	CMPQ BX, $AHEAD; \
	JLT  first; \
begin: \
	XORL BX, BX

// func splitHasManyAVX2(blocks *Block, n uint64, hashes *uint64, count int, out *bool)
TEXT ·splitHasManyAVX2(SB), NOSPLIT, $0-40
	MOVQ blocks+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ hashes+16(FP), SI
	MOVQ count+24(FP), R9
	MOVQ out+32(FP), R10
	SPLITFIRST
loop:
	SPLITNEXT
	SPLITBITS((SI)(BX*8))
	SPLITPLACE((SI)(BX*8), R14)
	VMOVDQU (DI)(R14*1), Y3
	VPTEST Y2, Y3
	SETCS (R10)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	VZEROUPPER
	RET

// func splitAddManyAVX2(blocks *Block, n uint64, hashes *uint64, count int)
TEXT ·splitAddManyAVX2(SB), NOSPLIT, $0-32
	MOVQ blocks+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ hashes+16(FP), SI
	MOVQ count+24(FP), R9
	SPLITFIRST
loop:
	SPLITNEXT
	SPLITBITS((SI)(BX*8))
	SPLITPLACE((SI)(BX*8), R14)
	VPOR (DI)(R14*1), Y2, Y2
	VMOVDQU Y2, (DI)(R14*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	VZEROUPPER
	RET

// func splitHasAVX2(blocks []Block, h uint64) bool
TEXT ·splitHasAVX2(SB), NOSPLIT, $0-33
	MOVQ blocks_base+0(FP), DI
	MOVQ blocks_len+8(FP), R8
	TESTQ R8, R8
	JEQ  none
	VMOVDQU ·salt(SB), Y8
	VPBROADCASTD bit<>(SB), Y9
	SPLITBITS(h+24(FP))
	SPLITPLACE(h+24(FP), R14)
	VMOVDQU (DI)(R14*1), Y3
	VPTEST Y2, Y3
	SETCS ret+32(FP)
	VZEROUPPER
	RET
none:
	MOVB $1, ret+32(FP)
	RET

// func splitAddAVX2(blocks []Block, h uint64)
TEXT ·splitAddAVX2(SB), NOSPLIT, $0-32
	MOVQ blocks_base+0(FP), DI
	MOVQ blocks_len+8(FP), R8
	TESTQ R8, R8
	JEQ  none
	VMOVDQU ·salt(SB), Y8
	VPBROADCASTD bit<>(SB), Y9
	SPLITBITS(h+24(FP))
	SPLITPLACE(h+24(FP), R14)
	VPOR (DI)(R14*1), Y2, Y2
	VMOVDQU Y2, (DI)(R14*1)
	VZEROUPPER
none:
	RET

// BOTH clears R10 unless both bits are set in the word at offset AX of the line in R14. The numbers of the
// bits are at bits first and second of the product in DX. It loads the word twice, each time whole: others
// may set bits of it. SHRX looks at the lower six bits only.
#define BOTH(first, second) \
	RORXQ $first, DX, R11; \
	SHRXQ R11, (R14)(AX*1), R11; \
	ANDQ R11, R10; \
	RORXQ $second, DX, R11; \
	SHRXQ R11, (R14)(AX*1), R11; \
	ANDQ R11, R10

// func atomicHasManyBMI2(words *uint64, n uint64, hashes *uint64, count int, out *bool)
//
// n is the number of lines. AX is the offset of the first word in the line, and then of the others. CX
// is the distance between two words, in bytes.
TEXT ·atomicHasManyBMI2(SB), NOSPLIT, $0-40
	MOVQ words+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ hashes+16(FP), SI
	MOVQ count+24(FP), R9
	LEAQ -1(R9), R13
	XORL BX, BX
	FIRST
	MOVQ out+32(FP), R15
loop:
	NEXT
	PLACE((SI)(BX*8), R14)
	ADDQ DI, R14
	MOVQ $0x9e3779b97f4a7c15, R11
	IMULQ R11, DX
	RORXQ $55, DX, CX
	RORXQ $58, DX, AX
	ANDL $0x30, CX
	ANDL $0x38, AX
	ORL  $8, CX
	MOVL $1, R10
	BOTH(53, 47)
	ADDL CX, AX
	ANDL $0x38, AX
	BOTH(41, 35)
	ADDL CX, AX
	ANDL $0x38, AX
	BOTH(29, 23)
	MOVB R10, (R15)(BX*1)
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	RET

// func cpuid(leaf, sub uint32) (ax, bx, cx, dx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, ax+8(FP)
	MOVL BX, bx+12(FP)
	MOVL CX, cx+16(FP)
	MOVL DX, dx+20(FP)
	RET

// func xgetbv() (ax uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ax+0(FP)
	RET

// SECOND turns the hash in from into the product of probes 7 to 13, in DX.
#define SECOND(from) \
	MOVQ from, DX; \
	SHRQ $32, DX; \
	XORQ from, DX; \
	IMULQ R15, DX

// func hasUnitsAVX2(u *Units, h uint64) bool
//
// If there is no second unit, no branch depends on the lines.
TEXT ·hasUnitsAVX2(SB), NOSPLIT, $0-17
	MOVQ u+0(FP), SI
	MOVQ h+8(FP), BX
	MOVL $1, R12
	MOVQ (Units_First+Unit_Lines)(SI), R8
	TESTQ R8, R8
	JEQ  done
	MOVQ $0x9e3779b97f4a7c15, R11
	VMOVDQU evenShifts<>(SB), Y8
	VMOVDQU oddShifts<>(SB), Y9
	VPBROADCASTD low5<>(SB), Y10
unit:
	MOVQ (Units_First+Unit_Bytes)(SI), DI
	MOVL (Units_First+Unit_K)(SI), AX
	MOVL AX, CX
	ONES(Y11)
	PLACE(BX, R14)
	IMULQ R11, DX
	TEST2(Y11)
	SETCS R12
	CMPL CX, $7
	JGT  more
next:
	CMPQ SI, u+0(FP)
	JNE  done // that was the second
	MOVQ (Units_Second+Unit_Lines)(SI), R8
	TESTQ R8, R8
	JNE  second
done:
	MOVB R12, ret+16(FP)
	VZEROUPPER
	RET

more:
	LEAL -7(CX), AX
	ONES(Y12)
	MOVQ $0xd6e8feb86659fd93, R15
	SECOND(BX)
	TEST2(Y12)
	SETCS AX
	ANDL AX, R12
	JMP  next

second:
	TESTL R12, R12
	JEQ  done
	// The hash for the second unit, and where it lies from here on.
	MOVQ BX, DX
	SHRQ $29, DX
	XORQ DX, BX
	MOVQ $0xbf58476d1ce4e5b9, DX
	IMULQ DX, BX
	ROLQ $32, BX
	ADDQ $(Units_Second-Units_First), SI
	JMP  unit

// SET sets the bit of a probe whose upper three bits lie at bit up of the product in DX, rotated
// as RORX counts. It uses AX and R12. R10 is the address of the line. BTSQ looks at the lower
// six bits only.
#define SET(byte, bit) \
	RORXQ $byte, DX, AX; \
	RORXQ $bit, DX, R12; \
	ANDL $0x38, AX; \
	MOVQ (R10)(AX*1), R14; \
	BTSQ R12, R14; \
	MOVQ R14, (R10)(AX*1)

// func addManyBMI2(lines *byte, n, k uint64, hashes *uint64, count int)
//
// It works with words of 64 bits, and has no vectors: the bits of a key fall into any words of the
// line, and several into one. All keys have the same k, so its branches are predicted.
TEXT ·addManyBMI2(SB), NOSPLIT, $0-40
	MOVQ lines+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ k+16(FP), CX
	MOVQ hashes+24(FP), SI
	MOVQ count+32(FP), R9
	LEAQ -1(R9), R13
	MOVQ $0x9e3779b97f4a7c15, R11
	MOVQ $0xd6e8feb86659fd93, R15
	XORL BX, BX
	FIRST
loop:
	NEXT
	PLACE((SI)(BX*8), R10)
	ADDQ DI, R10
	IMULQ R11, DX
	SET(58, 55)
	SET(49, 46)
	SET(40, 37)
	CMPQ CX, $4
	JLT  next
	SET(31, 28)
	CMPQ CX, $5
	JLT  next
	SET(22, 19)
	CMPQ CX, $6
	JLT  next
	SET(13, 10)
	CMPQ CX, $7
	JLT  next
	SET(4, 1)
	CMPQ CX, $8
	JLT  next
	MOVQ (SI)(BX*8), AX
	SECOND(AX)
	SET(58, 55)
	CMPQ CX, $9
	JLT  next
	SET(49, 46)
	CMPQ CX, $10
	JLT  next
	SET(40, 37)
	CMPQ CX, $11
	JLT  next
	SET(31, 28)
	CMPQ CX, $12
	JLT  next
	SET(22, 19)
	CMPQ CX, $13
	JLT  next
	SET(13, 10)
	CMPQ CX, $14
	JLT  next
	SET(4, 1)
next:
	INCQ BX
	CMPQ BX, R9
	JLT  loop
	RET
