package gputest

import "context"

// CancelAfter returns a context that is cancelled once it has been looked at more often than looks: with every count in
// turn, a test cancels at every point where a function would notice.
func CancelAfter(looks int) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	return &countdown{ctx, cancel, looks}
}

type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   int
}

func (c *countdown) look() {
	if c.left--; c.left < 0 {
		c.cancel()
	}
}

func (c *countdown) Err() error            { c.look(); return c.Context.Err() }
func (c *countdown) Done() <-chan struct{} { c.look(); return c.Context.Done() }
