package sample

import "math/bits"

// Purpose keeps the random numbers of different uses apart.
type Purpose uint32

// PurposeToken is the noise that chooses a token.
const PurposeToken Purpose = 0

// Philox is the counter-based generator Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: Parallel Random
// Numbers: As Easy as 1, 2, 3; SC 2011): a bijection of the counter for each key.
func Philox(c [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xd2511f53, c[0])
		h1, l1 := bits.Mul32(0xcd9e8d57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ key[0], l1, h0 ^ c[3] ^ key[1], l0}
		key[0] += 0x9e3779b9
		key[1] += 0xbb67ae85
	}
	return c
}

// Noise is the Gumbel noise of one token, in units of 1/Nat. It depends on the seed, the absolute position the token
// would take and its id, never on draws made before. Two ids share a Philox block.
func Noise(seed uint64, position, id uint32) int32 {
	r := Philox([4]uint32{id >> 1, position, uint32(PurposeToken), 0}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	if id&1 == 0 {
		return Gumbel(r[0], r[1])
	}
	return Gumbel(r[2], r[3])
}

// Gumbel turns 64 random bits into -ln(-ln(u)) for u uniform on (0, 1), in units of 1/Nat. It takes the exponential
// variate -log2(u) apart by its lack of memory: leading zeros of one word are its whole part, -log2(1-v) with v
// uniform on (0, 1/2) is its fraction. v keeps its relative precision down to 2^-33, because the largest noises, which
// win the draw, come from the smallest v.
func Gumbel(high, low uint32) int32 {
	whole := bits.LeadingZeros32(high)
	low |= b2u(low == 0)
	zeros := bits.LeadingZeros32(low)
	v := low<<zeros | (high<<1)>>1>>(31-zeros) // v * 2^(33+zeros); the bits of high below its first fill up
	fraction := mulHigh(v, negLog2Ratio(v>>1>>zeros))
	// The exponential variate is a / 2^shift.
	a, shift := fraction, 31+zeros
	if whole > 0 {
		a, shift = uint32(whole)<<26+fraction>>zeros>>5, 26
	}
	normal := bits.LeadingZeros32(a)
	below := -(a << normal) // 1 - v' for the mantissa 2(1-v')
	h := mulHigh(below, negLog2Ratio(below))
	return negLnLn2 - ln2*int32(32-shift-normal) + int32(mulHigh(h, ln2Fraction)>>6)
}

const (
	negLnLn2    = 6149066    // -ln(ln 2), in 1/Nat
	ln2         = 11629080   // in 1/Nat
	ln2Fraction = 2977044472 // in 2^-32
)

// negLog2Ratio is -log2(1-v)/v for v in [0, 1/2], v in 2^-32 and the result in 2^-30: interpolated at Chebyshev
// points, within 2e-7 of the true ratio.
func negLog2Ratio(v uint32) uint32 {
	p := int32(1794788142)
	for _, c := range [...]int32{-1604909350, 1168919342, 74910596, 418991107, 514305805, 774590840, 1549081809} {
		p = c + mulHighSigned(p, v)
	}
	return uint32(p)
}

// exp2 is 2^s for s in [0, 1), s in 2^-32 and the result in 2^-30: interpolated at Chebyshev points, within 5e-9.
func exp2(s uint32) uint32 {
	p := uint32(234782)
	for _, c := range [...]uint32{1330509, 10398316, 59571873, 257945486, 744260852, 1073741827} {
		p = c + mulHigh(p, s)
	}
	return p
}

func mulHigh(a, b uint32) uint32 {
	h, _ := bits.Mul32(a, b)
	return h
}

// mulHighSigned is floor(a*b / 2^32) for a signed a.
func mulHighSigned(a int32, b uint32) int32 { return int32(int64(a) * int64(b) >> 32) }

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
