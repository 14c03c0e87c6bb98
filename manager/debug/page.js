"use strict";
// The page works without this script, which only renews it.
(() => {
	const interval = 2000; // ms
	const patience = 15000; // ms
	const form = document.getElementById("filter");
	const pause = document.getElementById("pause");
	const problem = document.getElementById("problem");
	const late = new Error("late");
	let timer = 0;
	let running = null; // the AbortController of the request under way
	let renewed = new Date();

	const still = () => document.hidden || pause.getAttribute("aria-pressed") === "true";
	const reading = () => !document.getSelection().isCollapsed; // marked text would be lost

	// show puts the parts that live into the place of the old ones.
	function show(next) {
		const open = new Set(Array.from(document.querySelectorAll("details[open]"), (d) => d.id));
		const focused = document.activeElement?.closest("[id]")?.id;
		const parts = Array.from(document.querySelectorAll("[data-live]"), (old) => [old, next.getElementById(old.id)]);
		if (parts.some(([, part]) => !part)) throw new Error("the answer is another page");
		for (const [old, part] of parts) {
			for (const d of part.querySelectorAll("details")) d.open = open.has(d.id);
			const had = old.contains(document.activeElement);
			old.replaceWith(document.adoptNode(part));
			if (had && focused) {
				const e = document.getElementById(focused);
				(e?.tagName === "DETAILS" ? e.querySelector("summary") : e)?.focus({ preventScroll: true });
			}
		}
		document.title = next.title;
	}

	// report says what is wrong, if anything is.
	function report(text) {
		problem.textContent = text;
		problem.hidden = text === "";
		document.body.classList.toggle("old", text !== "");
	}

	async function renew() {
		clearTimeout(timer);
		running?.abort();
		const mine = running = new AbortController();
		const limit = setTimeout(() => mine.abort(late), patience);
		try {
			const answer = await fetch(location.pathname + location.search, { cache: "no-store", signal: mine.signal });
			if (!answer.ok) throw new Error(await answer.text());
			const next = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (mine !== running) return;
			if (!reading()) show(next);
			renewed = new Date();
			report("");
		} catch (err) {
			if (mine !== running) return;
			const why = err === late ? "no answer" : err.message;
			report("Could not be renewed since " + renewed.toLocaleTimeString() + " (" + why + "). Trying again.");
		} finally {
			clearTimeout(limit);
		}
		later();
	}

	function later() {
		clearTimeout(timer);
		if (!still()) timer = setTimeout(renew, interval);
	}

	// ask shows what the form asks for, from the first page on.
	function ask() {
		history.replaceState(null, "", "?" + new URLSearchParams(new FormData(form)));
		renew();
	}

	let typing = 0;
	form.addEventListener("input", () => {
		clearTimeout(typing);
		typing = setTimeout(ask, 250);
	});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		clearTimeout(typing);
		ask();
	});
	pause.addEventListener("click", () => {
		const paused = pause.getAttribute("aria-pressed") !== "true";
		pause.setAttribute("aria-pressed", paused);
		pause.textContent = paused ? "Go on" : "Pause";
		paused ? clearTimeout(timer) : renew();
	});
	document.addEventListener("visibilitychange", () => {
		still() ? clearTimeout(timer) : renew();
	});
	document.getElementById("apply").hidden = true;
	pause.hidden = false;
	later();
})();
