package main

import "strings"

// gpuHint says how to get WebGPU, or a real GPU, in the browser with this user agent.
func gpuHint(userAgent string, secure bool) string {
	has := func(s string) bool { return strings.Contains(userAgent, s) }
	switch {
	case !secure:
		return hintInsecure
	case has("iPhone") || has("iPad"): // every browser there is Safari inside
		return hintSafari
	case has("Firefox/"):
		return hintFirefox
	case has("Chrome/") && has("Android"):
		return hintAndroid
	case has("Chrome/") && has("Linux"):
		return hintChromeLinux
	case has("Chrome/"): // Edge and Opera name it too
		return hintChrome
	case has("Safari/"):
		return hintSafari
	}
	return hintOther
}
