//go:build !purego

#include "textflag.h"

// The byte whose only bit is the bit of that number.
DATA bitOf<>+0x00(SB)/8, $0x8040201008040201
DATA bitOf<>+0x08(SB)/8, $0
GLOBL bitOf<>(SB), NOPTR|RODATA, $16

// How many questions ahead a line is loaded.
#define AHEAD 16

// PLACE sets R6 to the address of the line of hash R5.
#define PLACE \
	UMULH R1, R5, R6; \
	ADD R6<<6, R0, R6

// START loads what all keys need, and prefetches the first lines. R7 is 0 after it. R8 is the number
// of the last hash.
#define START \
	SUB $1, R4, R8; \
	MOVD $0x9e3779b97f4a7c15, R10; \
	MOVD $0xd6e8feb86659fd93, R11; \
	MOVD ZR, R7; \
first: \
	MOVD (R3)(R7<<3), R5; \
	PLACE; \
	PRFM (R6), PLDL1KEEP; \
	ADD $1, R7; \
	CMP R4, R7; \
	BGE begin; \
	CMP $AHEAD, R7; \
	BLT first; \
begin: \
	MOVD ZR, R7

// NEXT prefetches the line of the hash that is AHEAD of number R7, or of the last one.
#define NEXT \
	ADD $AHEAD, R7, R9; \
	CMP R8, R9; \
	CSEL GT, R8, R9, R9; \
	MOVD (R3)(R9<<3), R5; \
	PLACE; \
	PRFM (R6), PLDL1KEEP

// TEST sets byte i of to to 0xff if probe i of the product R12 is set in the line in V16 to V19, and
// else to 0. It shifts two probes at a time: one lane has the product, the other the product shifted by
// one field. Then it narrows the eight lanes to halfwords, of which the lower nine bits are the
// number of a bit, and these to bytes: the byte in the line, and the bit in the byte.
#define TEST(to) \
	LSL $9, R12, R13; \
	VMOV R12, V0.D[0]; \
	VMOV R13, V0.D[1]; \
	VUSHR $55, V0.D2, V1.D2; \
	VUSHR $37, V0.D2, V2.D2; \
	VUSHR $19, V0.D2, V3.D2; \
	VUSHR $1, V0.D2, V4.D2; \
	VUZP1 V2.S4, V1.S4, V1.S4; \
	VUZP1 V4.S4, V3.S4, V3.S4; \
	VUZP1 V3.H8, V1.H8, V1.H8; \
	VUSHR $3, V1.H8, V2.H8; \
	VUZP1 V2.B16, V2.B16, V2.B16; \
	VUZP1 V1.B16, V1.B16, V1.B16; \
	VAND V21.B16, V2.B16, V2.B16; \
	VAND V22.B16, V1.B16, V1.B16; \
	VTBL V2.B16, [V16.B16, V17.B16, V18.B16, V19.B16], V2.B16; \
	VTBL V1.B16, [V20.B16], V1.B16; \
	VCMTST V1.B16, V2.B16, V1.B16; \
	VMOV V1.D[0], to

// func hasManyNEON(lines *byte, n, k uint64, hashes *uint64, count int, out *bool)
TEXT ·hasManyNEON(SB), NOSPLIT, $0-48
	MOVD lines+0(FP), R0
	MOVD n+8(FP), R1
	MOVD k+16(FP), R2
	MOVD hashes+24(FP), R3
	MOVD count+32(FP), R4
	MOVD out+40(FP), R14
	MOVD $bitOf<>(SB), R5
	VLD1 (R5), [V20.B16]
	VMOVI $63, V21.B16
	VMOVI $7, V22.B16
	START
	// R15 has the bytes of the probes that do not count, and R16 those of the second product.
	MOVD $-1, R15
	MOVD $-1, R16
	CMP $7, R2
	BGT second
	LSL $3, R2, R2
	LSL R2, R15, R15
loop:
	NEXT
	MOVD (R3)(R7<<3), R5
	PLACE
	VLD1 (R6), [V16.B16, V17.B16, V18.B16, V19.B16]
	MUL R10, R5, R12
	TEST(R12)
	ORR R15, R12, R12
	CMP $-1, R12
	CSET EQ, R12
	MOVB R12, (R14)(R7)
	ADD $1, R7
	CMP R4, R7
	BLT loop
	RET

second:
	LSL $56, R15, R15
	SUB $7, R2, R2
	LSL $3, R2, R2
	LSL R2, R16, R16
loop2:
	NEXT
	MOVD (R3)(R7<<3), R5
	PLACE
	VLD1 (R6), [V16.B16, V17.B16, V18.B16, V19.B16]
	MUL R10, R5, R12
	TEST(R17)
	EOR R5>>32, R5, R12
	MUL R11, R12, R12
	TEST(R12)
	ORR R15, R17, R17
	ORR R16, R12, R12
	AND R17, R12, R12
	CMP $-1, R12
	CSET EQ, R12
	MOVB R12, (R14)(R7)
	ADD $1, R7
	CMP R4, R7
	BLT loop2
	RET
