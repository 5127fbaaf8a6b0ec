package graph

import "time"

// Interval is the least time between two frames.
const Interval = 100 * time.Millisecond

// Pace decides when to draw: at once if the last frame is long past, else when it is; never while hidden, but once on
// return if something changed.
type Pace struct {
	last    time.Time
	waiting bool // a frame has been promised
	hidden  bool
	missed  bool // something changed while hidden
}

// Changed reports whether to set a timer for a frame, and for when.
func (p *Pace) Changed(now time.Time) (after time.Duration, draw bool) {
	if p.hidden {
		p.missed = true
		return 0, false
	}
	if p.waiting {
		return 0, false
	}
	p.waiting = true
	return max(0, p.last.Add(Interval).Sub(now)), true
}

// Due is called when the timer fires, and reports whether to draw now.
func (p *Pace) Due(now time.Time) bool {
	p.waiting = false
	if p.hidden {
		p.missed = true
		return false
	}
	p.last = now
	return true
}

// SetHidden notes whether anyone can see the panel, and reports whether a change was missed that Changed should now be
// told of.
func (p *Pace) SetHidden(hidden bool) (missed bool) {
	missed = p.missed && !hidden
	p.hidden = hidden
	if missed {
		p.missed = false
	}
	return missed
}
