package tokenizer

// byteRunes is the byte-level alphabet of GPT-2: each byte has a printable character, so that vocabularies and merges
// can be written as text. Printable Latin-1 bytes stand for themselves, the rest for U+0100 onwards.
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			runes[b] = rune(b)
		} else {
			runes[b] = next
			next++
		}
	}
	return runes
}()

// runeBytes is the inverse for the alphabet's runes, all below 324; -1 for runes outside it.
var runeBytes = func() (bytes [324]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range byteRunes {
		bytes[r] = int16(b)
	}
	return bytes
}()

// appendTokenBytes appends the bytes a token of the byte-level alphabet stands for; a token with any other character
// (an added token, as a rule) stands for its own text.
func appendTokenBytes(out []byte, token string) []byte {
	n := len(out)
	for _, r := range token {
		if int(r) >= len(runeBytes) || runeBytes[r] < 0 {
			return append(out[:n], token...)
		}
		out = append(out, byte(runeBytes[r]))
	}
	return out
}
