package tokenizer

import (
	"encoding/json"
	"fmt"
)

// template is what AddSpecialTokens puts around a text.
type template struct{ before, after []int32 }

func newTemplate(raw json.RawMessage, t *Tokenizer) (template, error) {
	if raw == nil {
		return template{}, nil
	}
	c, err := newComponent("post_processor", raw)
	if err != nil {
		return template{}, err
	}
	return c.template(t)
}

func (c component) template(t *Tokenizer) (template, error) {
	switch c.kind {
	case "Sequence":
		var all template
		parts, err := c.sequence("processors")
		if err != nil {
			return all, err
		}
		for _, p := range parts { // each wraps what those before it made
			one, err := p.template(t)
			if err != nil {
				return all, err
			}
			all.before = append(one.before, all.before...)
			all.after = append(all.after, one.after...)
		}
		return all, nil
	case "ByteLevel": // changes offsets only, which we do not give
		var o struct {
			Type           *string `json:"type"`
			AddPrefixSpace *bool   `json:"add_prefix_space"`
			TrimOffsets    *bool   `json:"trim_offsets"`
			UseRegex       *bool   `json:"use_regex"`
		}
		return template{}, c.options(&o, "use_regex")
	case "TemplateProcessing":
		return c.templateProcessing(t)
	}
	return template{}, c.unsupported("TemplateProcessing, ByteLevel, Sequence")
}

func (c component) templateProcessing(t *Tokenizer) (out template, err error) {
	type ref struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	var o struct {
		Type   *string `json:"type"`
		Single []struct {
			SpecialToken *ref
			Sequence     *ref
		} `json:"single"`
		Pair          json.RawMessage `json:"pair"` // for two texts at once, which Encode does not take
		SpecialTokens map[string]struct {
			ID     string   `json:"id"`
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		} `json:"special_tokens"`
	}
	if err := c.options(&o, "pair"); err != nil {
		return out, err
	}
	texts := 0
	for i, item := range o.Single {
		switch {
		case item.SpecialToken != nil && item.Sequence == nil:
			special, ok := o.SpecialTokens[item.SpecialToken.ID]
			if !ok {
				return out, fmt.Errorf("%s: single[%d] names %s, which special_tokens lacks", c.where, i, quote(item.SpecialToken.ID))
			}
			for _, id := range special.IDs {
				if !t.has(id) {
					return out, fmt.Errorf("%s: special token %s has the id %d, which no token has", c.where, quote(item.SpecialToken.ID), id)
				}
			}
			if texts == 0 {
				out.before = append(out.before, special.IDs...)
			} else {
				out.after = append(out.after, special.IDs...)
			}
		case item.Sequence != nil && item.SpecialToken == nil && item.Sequence.ID == "A":
			texts++
		default:
			return out, fmt.Errorf("%s: single[%d]: want a SpecialToken or the Sequence A", c.where, i)
		}
	}
	if texts != 1 {
		return out, fmt.Errorf("%s: single has the text %d times, want once", c.where, texts)
	}
	return out, nil
}
