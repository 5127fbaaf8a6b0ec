package modeltest

import (
	"fmt"
	"strings"
)

// The special tokens, at the start of the vocabulary. The 256 bytes follow, then merged tokens.
const (
	idBOS = iota
	idEOS
	idStart
	idEnd
	idThink
	idThinkEnd
	idMask
	idPad
	firstByte
)

var specials = []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|mask|>", "<pad>"}

// merges are enough to make pieces of one to four letters of English, so that token and byte boundaries differ.
const merges = "Ġ t|h e|Ġ a|i n|Ġ s|r e|o n|Ġt he|e r|Ġ w|n d|o u|Ġ o|i t|a t|e n|i s|o r|e s|Ġ b|e d|Ġ f|in g|Ġ c|" +
	"a n|l l|Ġo f|Ġa nd|Ġ p|Ġ m|Ġ d|a r|Ġ h|Ġt o|o m|Ġ l|Ġ in|l e|Ġ y|Ġy ou|i c|a l|Ġ is|u t|v e|Ġ n|o w|Ġs t"

// splitPattern keeps words with the blank before them, numbers, marks and blanks apart.
const splitPattern = ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

const chatTemplate = `{{- bos_token }}{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}` +
	`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`

// tokenizerJSON returns a byte-level BPE. A vocabulary that is larger than its tokens leaves ids without text, as
// padded vocabularies do; a smaller one gets fewer merges, but every byte must have its token.
func tokenizerJSON(vocabSize int) []byte {
	least := firstByte + 256
	if vocabSize < least {
		panic(fmt.Errorf("modeltest: vocab_size %d is too small for a byte-level tokenizer, expected at least %d", vocabSize, least))
	}
	vocab, added := map[string]int{}, []map[string]any{}
	for id, content := range specials {
		vocab[content] = id
		added = append(added, addedToken(id, content))
	}
	for b, r := range byteRunes() {
		vocab[string(r)] = firstByte + b
	}
	var pairs []string
	for _, pair := range strings.Split(merges, "|") {
		if len(vocab) == vocabSize {
			break
		}
		vocab[strings.Replace(pair, " ", "", 1)] = len(vocab)
		pairs = append(pairs, pair)
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	split := map[string]any{"type": "Split", "pattern": map[string]any{"Regex": splitPattern}, "behavior": "Isolated", "invert": false}
	return marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer":  map[string]any{"type": "Sequence", "pretokenizers": []any{split, byteLevel}},
		"post_processor": byteLevel,
		"decoder":        byteLevel,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": pairs,
		},
	})
}

func tokenizerConfigJSON(maxLength int) []byte {
	decoder := map[string]any{}
	for id, content := range specials {
		token := addedToken(id, content)
		delete(token, "id")
		decoder[fmt.Sprint(id)] = token
	}
	return marshal(map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": specials[idBOS], "eos_token": specials[idEnd],
		"pad_token": specials[idPad], "mask_token": specials[idMask], "unk_token": nil, "add_bos_token": false,
		"add_prefix_space": false, "clean_up_tokenization_spaces": false, "model_max_length": maxLength,
		"added_tokens_decoder": decoder, "chat_template": chatTemplate,
	})
}

func addedToken(id int, content string) map[string]any {
	return map[string]any{
		"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
	}
}

// byteRunes returns the character that stands for each byte in a byte-level vocabulary: printable Latin-1 for itself,
// the other bytes in order from U+0100.
func byteRunes() [256]rune {
	var runes [256]rune
	next := rune(256)
	for b := range runes {
		r := rune(b)
		if r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE {
			runes[b] = r
			continue
		}
		runes[b] = next
		next++
	}
	return runes
}
