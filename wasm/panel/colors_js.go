package main

import (
	"image/color"

	"github.com/hajimehoshi/ebiten/v2"
)

var white = color.White

// palette has the colours of the page's style sheet, light or dark. The ground shows through from there.
type palette struct{ bar, mean, grid ebiten.ColorScale }

func colors(dark bool) palette {
	if dark {
		return palette{bar: rgb(0xfb923c), mean: rgb(0xeceae6), grid: rgb(0x3a383f)}
	}
	return palette{bar: rgb(0xea580c), mean: rgb(0x1d1b19), grid: rgb(0xdedad3)}
}

func rgb(hex uint32) (c ebiten.ColorScale) {
	c.ScaleWithColor(color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff})
	return c
}
