// Loaded into pages by the development server alone: reloads the page when a new build is there, and shows the
// compiler's words over it when a build fails.
"use strict";
(() => {
	if (window !== window.top) return; // frames come along with their page
	let build;
	let overlay;

	const show = (text) => {
		overlay ??= document.createElement("pre");
		overlay.id = "build-error";
		overlay.textContent = text;
		// Styles set one by one from a script pass a policy that forbids inline styles.
		Object.assign(overlay.style, {
			position: "fixed", inset: "0", zIndex: "2147483647", margin: "0", padding: "1.5rem", overflow: "auto",
			whiteSpace: "pre-wrap", font: "14px/1.5 monospace", color: "#ffd7d7", background: "rgba(40, 0, 0, 0.94)",
		});
		if (document.body) document.body.append(overlay);
		else addEventListener("DOMContentLoaded", () => overlay && document.body.append(overlay));
	};

	new EventSource("/_reload").onmessage = (event) => {
		const state = JSON.parse(event.data);
		if (state.error) {
			build ??= state.build;
			show(state.error);
			return;
		}
		// An overlay goes away with a reload as well: the page below it may have started from a broken build.
		if ((build !== undefined && build !== state.build) || overlay) location.reload();
		build = state.build;
	};
})();
