"use strict";
// All but the timeline works without this script. Texts of the history reach the page by
// textContent and fillText only, never as HTML.
(async () => {
	const $ = (id) => document.getElementById(id);
	const data = JSON.parse($("data").textContent);
	// The same lists as in acquisition.go.
	const outcomes = ["released", "lost", "refused", "its process ended", "its process ended while it waited", "held when the history ended", "waited when the history ended"];
	const modes = ["", "exclusive", "mutex", "read", "upgradable", "write", "permit"];
	const LOST = 1, neverGranted = new Set([2, 4, 6]);

	// ---- The command ----

	const copy = $("copy");
	copy.hidden = false;
	copy.addEventListener("click", async () => {
		let copied = false;
		try {
			await navigator.clipboard.writeText($("command").textContent);
			copied = true;
		} catch {
			getSelection().selectAllChildren($("command")); // a browser that refuses may still copy this way
			copied = document.execCommand("copy");
		}
		$("copied").textContent = copied ? "Copied." : "The browser does not let the page copy. The command is selected: copy it with the keyboard.";
	});

	// ---- What is closed ----

	// A link into what is closed opens it.
	const reveal = (id) => {
		const target = document.getElementById(id);
		for (let d = target?.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
		return target;
	};
	const follow = () => reveal(location.hash.slice(1))?.scrollIntoView();
	addEventListener("hashchange", follow);
	document.addEventListener("click", (event) => {
		const link = event.target.closest('a[href^="#"]:not(.go)');
		if (link) reveal(link.getAttribute("href").slice(1));
	});
	if (location.hash) follow();
	$("help").open = innerWidth > 768;

	let closed = []; // before printing
	addEventListener("beforeprint", () => {
		closed = [...document.querySelectorAll("details:not([open])")];
		for (const d of closed) d.open = true;
	});
	addEventListener("afterprint", () => { for (const d of closed) d.open = false; });

	// ---- Reading the packed columns: see data.go ----

	async function unpack(packed) {
		const raw = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
		const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
		const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
		let i = 0;
		const uint = () => {
			let x = 0, f = 1, b = bytes[i++];
			for (; b >= 128; b = bytes[i++], f *= 128) x += (b - 128) * f;
			return x + b * f;
		};
		const big = () => { // signed, of 64 bits
			let x = 0, f = 1, b = bytes[i++];
			for (; b >= 128 && f < 2 ** 42; b = bytes[i++], f *= 128) x += (b - 128) * f;
			let v = BigInt(x), g = BigInt(f);
			for (; b >= 128; b = bytes[i++], g *= 128n) v += BigInt(b - 128) * g;
			v += BigInt(b) * g;
			return v % 2n ? -(v + 1n) / 2n : v / 2n;
		};
		const column = (array, value = uint) => {
			for (let k = 0; k < packed.n; k++) array[k] = value(k);
			return array;
		};
		return { column, big };
	}

	const problem = (text) => {
		$("problem").textContent = text;
		$("problem").hidden = false;
		$("stage").hidden = $("keys").hidden = true;
	};
	if (typeof DecompressionStream === "undefined") {
		problem("This browser is too old for the timeline: it lacks DecompressionStream. All else on this page is complete.");
		return;
	}

	const N = data.spans.n;
	const start = new Float64Array(N), granted = new Float64Array(N), ended = new Float64Array(N), settled = new Float64Array(N);
	const owner = new Uint16Array(N), worker = new Uint32Array(N), lock = new Uint16Array(N), text = new Uint16Array(N);
	const outcome = new Uint8Array(N), mode = new Uint8Array(N), lastMode = new Uint8Array(N);
	const token = new BigUint64Array(N), turn = new BigUint64Array(N);
	const laneCount = data.lanes.length, workers = Math.max(data.workers, 1);
	const block = 256, latest = new Float64Array(Math.ceil(N / block)).fill(-Infinity); // the latest end in each block
	const cellRow = new Map(data.cellRows.map(([p, l], i) => [p * laneCount + l, i]));
	const cells = data.cellCount, cellWidth = data.cellWidth;
	const cellHeld = new Uint8Array(data.cells.n), cellWaited = new Float32Array(data.cells.n), cellGrants = new Float64Array(data.cells.n);
	try {
		const s = await unpack(data.spans);
		let at = data.from;
		s.column(start);
		for (let i = 0; i < N; i++) start[i] = at += start[i];
		s.column(granted);
		s.column(ended);
		s.column(settled);
		const flags = new Uint16Array(N), who = new Float64Array(N);
		s.column(who);
		s.column(lock);
		s.column(flags);
		s.column(text);
		const rising = () => {
			const last = new Map();
			return (i) => {
				const v = BigInt.asUintN(64, (last.get(lock[i]) ?? 0n) + s.big());
				last.set(lock[i], v);
				return v;
			};
		};
		s.column(token, rising());
		s.column(turn, rising());
		for (let i = 0; i < N; i++) {
			granted[i] += start[i];
			ended[i] += granted[i];
			settled[i] += ended[i];
			owner[i] = Math.floor(who[i] / workers);
			worker[i] = who[i] % workers;
			outcome[i] = flags[i] % 8;
			mode[i] = Math.floor(flags[i] / 8) % 8;
			lastMode[i] = Math.floor(flags[i] / 64);
			const b = Math.floor(i / block);
			latest[b] = Math.max(latest[b], settled[i]);
		}
		const c = await unpack(data.cells);
		c.column(cellHeld);
		c.column(cellWaited);
		c.column(cellGrants);
	} catch (err) {
		problem("The timeline cannot be read: " + err.message + ". All else on this page is complete.");
		return;
	}

	// ---- Words ----

	const pad = (n, digits) => String(n).padStart(digits, "0");
	function clock(us, digits = 3) {
		const sign = us < 0 ? "−" : "";
		const unit = 10 ** (6 - digits);
		let t = Math.floor(Math.abs(us) / unit);
		const part = t % 10 ** digits;
		t = Math.floor(t / 10 ** digits);
		const h = Math.floor(t / 3600), m = Math.floor(t / 60) % 60, s = t % 60;
		return sign + (h ? h + ":" + pad(m, 2) : m) + ":" + pad(s, 2) + (digits ? "." + pad(part, digits) : "");
	}
	const when = (us) => clock(us) + (data.wall ? " (" + new Date(data.wall + us / 1000).toLocaleTimeString() + ")" : "");
	// The same rules as in package figures.
	const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
	function duration(us) {
		if (us < 0) return "−" + duration(-us);
		const ns = Math.round(us * 1000), min = 60e9, h = 3600e9;
		if (ns === 0) return "0";
		let step = 1;
		while (ns >= 1000 * step) step *= 10;
		const near = Math.round(ns / step) * step;
		if (near < min) {
			const [size, unit] = near < 1e3 ? [1, "ns"] : near < 1e6 ? [1e3, "µs"] : near < 1e9 ? [1e6, "ms"] : [1e9, "s"];
			const x = near / size;
			return x.toFixed(ns % size === 0 || x >= 100 ? 0 : x < 10 ? 2 : 1) + " " + unit;
		}
		const two = (ns, large, name, small, other) => {
			const n = Math.round(ns / small), rest = n % (large / small);
			return number((n - rest) / (large / small)) + " " + name + (rest ? " " + rest + " " + other : "");
		};
		return Math.round(ns / 1e9) < 3600 ? two(ns, min, "min", 1e9, "s") : two(ns, h, "h", min, "min");
	}
	const faultName = (f) => "#" + f.n + " " + f.kind;
	const faultsIn = (from, until) => data.faults.filter((f) => f.from <= until && f.until >= from).map((f) => faultName(f) + (f.target ? " (" + f.target + ")" : ""));
	const processName = (p) => "process " + data.processes[p];
	const list = (all, most = 8) => all.slice(0, most).join(", ") + (all.length > most ? " and " + number(all.length - most) + " more" : "");

	const pointKinds = ["revoked", "stale", "failure", "session", "stopping"]; // as in collector.go
	data.points = data.points.map(([at, kind, p, w, lock, text]) => ({ at, kind: pointKinds[kind], p, w, lock, text }));

	// ---- What is shown ----

	const margin = (data.until - data.from) * 0.01 + 1000;
	const whole = { from: data.from - margin, until: data.until + margin };
	const view = { ...whole };
	const shownProcesses = new Set(data.processes.keys());
	const shownLanes = new Set(data.lanes.keys());
	let lanesAre = "lock";
	let chosen = null; // { kind: "fault" | "loss" | "finding" | "span" …, i }
	const serverOf = (f) => Number(/^server (\d+)/.exec(f.target)?.[1] ?? -1);
	const processOf = (f) => {
		const m = /^process (\d+)/.exec(f.target);
		return m ? data.processes.indexOf(Number(m[1])) : -1;
	};
	const servers = [...new Set(data.faults.map(serverOf))].filter((s) => s >= 0).sort((a, b) => a - b);
	const lifeless = new Map(); // times in which a process did not run
	for (const l of [...data.lives].sort((a, b) => a.from - b.from)) {
		if (!lifeless.has(l.p)) lifeless.set(l.p, [{ from: -Infinity, until: l.from }]);
		const times = lifeless.get(l.p);
		times[times.length - 1].until = l.from;
		times.push({ from: l.until, until: l.open ? -Infinity : Infinity });
	}

	const picture = $("picture"), stage = $("stage"), tip = $("tip");
	const ink = picture.getContext("2d");
	const dark = matchMedia("(prefers-color-scheme: dark)");
	let printing = false;
	const light = { back: "#ffffff", band: "#eef0f3", text: "#1d2126", dim: "#59626d", line: "#d9dde2", bad: "#a81c16", fault: "#8a5300", faultBack: "#ffe2a8", link: "#0b57c2",
		locks: ["#0072b2", "#d55e00", "#009e73", "#b04c8c", "#c98a00", "#3a9bd9", "#6a51a3", "#737373"] };
	const night = { back: "#15181c", band: "#20252b", text: "#d0d5db", dim: "#98a1ab", line: "#30363e", bad: "#ff8a80", fault: "#e0b062", faultBack: "#4a3812", link: "#7fb2f5",
		locks: ["#4aa3e0", "#f07b3a", "#2cc79a", "#e08cc0", "#f0c040", "#8fd0ff", "#a995e0", "#a0a0a0"] };
	const theme = () => (dark.matches && !printing ? night : light);
	const colourOf = (lane) => theme().locks[lane % theme().locks.length];

	// hatch returns a pattern of lines.
	function hatch(colour, diagonal) {
		const tile = document.createElement("canvas");
		tile.width = tile.height = 8;
		const t = tile.getContext("2d");
		t.strokeStyle = colour;
		t.globalAlpha = 0.6;
		t.lineWidth = 1;
		t.beginPath();
		if (diagonal) for (const d of [-8, 0, 8]) { t.moveTo(d, 8); t.lineTo(d + 8, 0); }
		else { t.moveTo(2.5, 0); t.lineTo(2.5, 8); }
		t.stroke();
		return ink.createPattern(tile, "repeat");
	}

	// ---- Layout ----

	const overviewHeight = 44, axisHeight = data.findings.length ? 34 : 22, // with room for the marks of findings
		 goneHeight = data.gone.length ? 8 : 0, track = 17, head = 17;
	const strip = data.lives.length || data.points.some((p) => p.lock < 0 && p.p >= 0) ? 15 : 0; // below a head, for what happened to the process
	let layout = null;
	function arrange() {
		const width = stage.clientWidth;
		// Many tracks have room for names from afar; near, they would be empty.
		const many = view.until - view.from > (whole.until - whole.from) / 4 ? 6 : 2;
		const tracks = data.faults.length ? Math.min(many, Math.max(2, Math.ceil(data.faults.length * 130 / width))) : 0;
		let y = overviewHeight + axisHeight + goneHeight;
		const faultsAt = y;
		y += tracks * track + (tracks ? 4 : 0);
		const serverRows = servers.map((number) => ({ number, y: (y += track) - track }));
		if (servers.length) y += 4;
		const rowsAt = y;
		const lanes = lanesAre === "lock" ? [...shownLanes].sort((a, b) => a - b) : Array.from({ length: Math.min(workers, 256) }, (_, i) => i);
		const n = Math.max(lanes.length, 1);
		const alone = shownProcesses.size <= 2;
		const height = alone ? Math.max(Math.min(16, 800 / n), 3) : Math.min(Math.max(480 / shownProcesses.size, 24), 96, n * 9) / n;
		const laneAt = new Map(lanes.map((l, i) => [l, i]));
		const rows = [...shownProcesses].sort((a, b) => a - b).map((p) => {
			const row = { p, y, lanesAt: y + head + strip };
			y += head + strip + Math.ceil(n * height) + 4;
			return row;
		});
		layout = { width, height: y + 2, tracks, faultsAt, serverRows, rowsAt, rows, lanes, laneAt, laneHeight: height, alone, rowOf: new Map(rows.map((r) => [r.p, r])) };
	}

	const xOf = (us) => (us - view.from) / (view.until - view.from) * layout.width;
	const timeAt = (x) => view.from + x / layout.width * (view.until - view.from);
	const visible = (from, until) => until >= view.from && from <= view.until;
	const laneOfSpan = (i) => lanesAre === "lock" ? data.laneOf[lock[i]] : worker[i];

	// found returns the acquisitions that touch the view, or null if they are too many to
	// be drawn one by one.
	const mostDrawn = 25000;
	function found() {
		let low = 0, high = N;
		while (low < high) {
			const middle = Math.floor((low + high) / 2);
			if (start[middle] > view.until) high = middle; else low = middle + 1;
		}
		const all = [];
		for (let b = 0; b * block < low; b++) {
			if (latest[b] < view.from) continue;
			const end = Math.min((b + 1) * block, low);
			for (let i = b * block; i < end; i++) {
				if (settled[i] < view.from || !shownProcesses.has(owner[i]) || !shownLanes.has(data.laneOf[lock[i]])) continue;
				if (all.push(i) > mostDrawn) return null;
			}
		}
		return all;
	}

	// ---- Drawing ----

	let drawn = { spans: null, marks: [], faults: [] }; // what a pointer can hit
	function draw() {
		arrange();
		const { width, height } = layout, c = theme();
		const ratio = Math.min(devicePixelRatio || 1, Math.sqrt(16e6 / (width * height)));
		if (picture.width !== Math.round(width * ratio) || picture.height !== Math.round(height * ratio)) {
			picture.width = Math.round(width * ratio);
			picture.height = Math.round(height * ratio);
			picture.style.height = height + "px";
		}
		ink.setTransform(ratio, 0, 0, ratio, 0, 0);
		ink.globalAlpha = 1;
		ink.fillStyle = c.back;
		ink.fillRect(0, 0, width, height);
		ink.textBaseline = "middle";
		drawn = { spans: found(), marks: [], faults: [] };
		// Where a cell is as wide as a few pixels, single acquisitions say more.
		drawn.fine = drawn.spans !== null && (cellWidth / (view.until - view.from) * width > 1.5 || drawn.spans.length < 3000);

		drawGrid(c);
		drawColumns(c);
		for (const row of layout.rows) drawRow(row, c);
		if (drawn.fine) drawSpans(c);
		else for (const row of layout.rows) drawCells(row, view.from, view.until);
		if (drawn.fine) for (const [from, until] of data.gone) if (visible(from, until)) for (const row of layout.rows) drawCells(row, from, until);
		for (const row of layout.rows) drawHead(row, c);
		drawMarks(c);
		drawFaults(c);
		drawAxis(c);
		drawFindings(c);
		drawOverview(c);
	}

	let asked = false;
	function redraw() {
		if (asked) return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			draw();
		});
	}

	// drawColumns shows behind the rows when faults were active.
	function drawColumns(c) {
		for (const [i, f] of data.faults.entries()) {
			if (!visible(f.from, f.until)) continue;
			const mine = chosen?.kind === "fault" && chosen.i === i;
			const x = xOf(f.from), w = Math.max(xOf(f.until) - x, 1);
			ink.globalAlpha = mine ? 0.75 : 0.28;
			ink.fillStyle = c.faultBack;
			ink.fillRect(x, layout.rowsAt, w, layout.height - layout.rowsAt);
			ink.globalAlpha = mine ? 1 : 0.35;
			ink.fillStyle = c.fault;
			ink.fillRect(x, layout.rowsAt, 1, layout.height - layout.rowsAt);
			if (mine) ink.fillRect(x + w - 1, layout.rowsAt, 1, layout.height - layout.rowsAt);
		}
		ink.globalAlpha = 1;
	}

	function drawRow(row, c) {
		const lanesHeight = layout.lanes.length * layout.laneHeight;
		ink.fillStyle = c.line;
		ink.fillRect(0, row.lanesAt + lanesHeight + 2, layout.width, 1);
		const stripe = (from, until, fill) => {
			if (!visible(from, until)) return;
			const x = Math.max(xOf(from), 0), end = Math.min(xOf(until), layout.width);
			ink.fillStyle = fill;
			ink.fillRect(x, row.lanesAt, Math.max(end - x, 1), lanesHeight);
			return [x, end];
		};
		const dead = hatch(c.dim, true), asleep = hatch(c.fault, false);
		for (const t of lifeless.get(row.p) ?? []) {
			const at = t.until > t.from && stripe(t.from, t.until, dead);
			if (at && at[1] - at[0] > 90) label("did not run", (at[0] + at[1]) / 2, row.lanesAt + lanesHeight / 2, c.dim, c.back, "center");
		}
		for (const [p, from, until, over] of data.outages) {
			const at = p === row.p && stripe(from, until, asleep);
			if (at) {
				if (at[1] - at[0] < 6) continue;
				ink.fillStyle = c.fault;
				ink.fillRect(at[0], row.lanesAt, 1, lanesHeight);
				ink.fillRect(at[1] - 1, row.lanesAt, over ? 3 : 1, lanesHeight);
			}
		}
		if (layout.alone && lanesAre === "worker" && layout.laneHeight >= 8) {
			ink.fillStyle = c.line;
			for (let i = 1; i < layout.lanes.length; i++) ink.fillRect(0, row.lanesAt + i * layout.laneHeight, layout.width, 0.5);
		}
	}

	function drawSpans(c) {
		const h = layout.laneHeight, gap = h >= 3 ? 1 : 0;
		const bars = [], named = [];
		for (const i of drawn.spans) {
			const lane = laneOfSpan(i), at = layout.laneAt.get(lane);
			if (at === undefined) continue;
			const y = layout.rowOf.get(owner[i]).lanesAt + at * h;
			const colour = colourOf(data.laneOf[lock[i]]);
			ink.fillStyle = colour;
			const held = !neverGranted.has(outcome[i]);
			const x0 = xOf(start[i]), x1 = xOf(granted[i]);
			if (x1 - x0 > 0.4) {
				ink.globalAlpha = 0.6;
				const thin = Math.max(h * 0.22, 1);
				ink.fillRect(Math.max(x0, -2), y + (h - thin) / 2, Math.min(x1, layout.width + 2) - Math.max(x0, -2), thin);
			}
			if (held) bars.push([i, x1, y, colour]);
			else if (x1 - x0 > 0.4 && h >= 4) { // an end without a grant
				ink.globalAlpha = 0.9;
				ink.fillRect(x1 - 0.5, y + h * 0.2, 1, h * 0.6);
			}
		}
		for (const [i, x, y, colour] of bars) { // above the waits
			const end = xOf(ended[i]), last = xOf(settled[i]);
			const left = Math.max(x, -2), w = Math.max(Math.min(end, layout.width + 2) - left, 1);
			ink.fillStyle = colour;
			ink.globalAlpha = 0.92;
			ink.fillRect(left, y + gap / 2, w, h - gap);
			if (last - end > 0.4) {
				ink.globalAlpha = 0.5;
				ink.fillRect(end, y + h * 0.3, last - end, h * 0.4);
			}
			if (chosen?.kind === "span" && chosen.i === i) {
				ink.globalAlpha = 1;
				ink.strokeStyle = c.text;
				ink.lineWidth = 2;
				ink.strokeRect(left - 1, y - 1, w + 2, h + 2);
			}
			if (w > 34) named.push([Math.max(left, 0) + 3, left + w - 3, y, i]);
		}
		// The colour alone must not have to tell the lock. Bars of workers that share a hold
		// lie over one another, so their names come last.
		if (h >= 11) {
			ink.globalAlpha = 1;
			ink.font = "10px system-ui, sans-serif";
			ink.textAlign = "left";
			ink.fillStyle = c === night ? "#000" : "#fff";
			const free = new Map(); // from where on, in each lane
			for (const [x, end, y, i] of named.sort((a, b) => a[0] - b[0])) {
				const name = lanesAre === "lock" ? "w" + worker[i] : data.locks[lock[i]];
				const width = ink.measureText(name).width;
				if (x + width > end || x < (free.get(y) ?? 0)) continue;
				ink.fillText(name, x, y + h / 2 + 0.5);
				free.set(y, x + width + 4);
			}
		}
		ink.globalAlpha = 1;
	}

	// drawCells shows for which part of the time the locks were held, and whether they
	// were waited for.
	function drawCells(row, from, until) {
		if (lanesAre === "worker") {
			label("from afar there are no lanes of workers: zoom in", Math.min(xOf(Math.max(from, view.from)) + 6, layout.width - 200), row.lanesAt + 12, theme().dim, theme().back, "left");
		}
		const lanes = [...shownLanes].sort((a, b) => a - b);
		const h = layout.lanes.length * layout.laneHeight / Math.max(lanes.length, 1);
		const first = Math.max(Math.floor((Math.max(from, view.from) - data.from) / cellWidth), 0);
		const last = Math.min(Math.ceil((Math.min(until, view.until) - data.from) / cellWidth), cells);
		const clipLeft = Math.max(xOf(from), 0), clipRight = Math.min(xOf(until), layout.width);
		for (const [k, lane] of lanes.entries()) {
			const base = cellRow.get(row.p * laneCount + lane);
			if (base === undefined) continue;
			const y = row.lanesAt + k * h;
			ink.fillStyle = colourOf(lane);
			// One rectangle for neighbouring columns of pixels that look the same.
			let from = clipLeft, shade = 0, wait = 0, i = first;
			const flush = (to) => {
				if (shade) {
					ink.globalAlpha = 0.12 + 0.83 * Math.sqrt(shade / 8);
					ink.fillRect(from, y + (h >= 3 ? 0.5 : 0), to - from, h >= 3 ? h - 1 : h);
				}
				if (wait && h >= 2) {
					ink.globalAlpha = 0.25 + 0.6 * wait / 4;
					ink.fillRect(from, y + h / 2 - 0.5, to - from, 1);
				}
			};
			while (i < last) {
				const x = Math.max(xOf(data.from + i * cellWidth), clipLeft);
				let held = 0, waited = 0, n = 0, next = i;
				do {
					held += cellHeld[base * cells + next];
					waited += cellWaited[base * cells + next];
					n++;
					next++;
				} while (next < last && xOf(data.from + (next + 1) * cellWidth) - x < 1);
				const s = Math.ceil(held / n / 255 * 8), w = Math.min(Math.ceil(waited / n / 20), 4);
				if (s !== shade || w !== wait) {
					flush(x);
					from = x;
					shade = s;
					wait = w;
				}
				i = next;
			}
			flush(Math.min(Math.max(xOf(data.from + last * cellWidth), clipLeft), clipRight));
		}
		ink.globalAlpha = 1;
	}

	// label writes a text on a ground of its own. It returns the text's width.
	function label(words, x, y, colour, ground, align = "left", font = "12px system-ui, sans-serif") {
		ink.font = font;
		const w = ink.measureText(words).width;
		if (align === "center") x -= w / 2;
		if (ground) {
			ink.globalAlpha = 0.82;
			ink.fillStyle = ground;
			ink.fillRect(x - 3, y - 7, w + 6, 14);
		}
		ink.globalAlpha = 1;
		ink.textAlign = "left";
		ink.fillStyle = colour;
		ink.fillText(words, x, y + 0.5);
		return w;
	}

	// drawHead names a process, and shows its faults, and when it began and ended.
	function drawHead(row, c) {
		ink.fillStyle = c.band;
		ink.fillRect(0, row.y, layout.width, head - 1);
		heading(processName(row.p), row.y, head - 1, c, (free) => {
			faultBars([...data.faults.keys()].filter((i) => processOf(data.faults[i]) === row.p), row.y + 1, head - 3, free, c, false);
		});
		for (const [i, [p, from, until]] of data.outages.entries()) {
			if (p === row.p && visible(from, until)) drawn.marks.push({ kind: "outage", i, x0: xOf(from), x1: xOf(until), y0: row.lanesAt, y1: row.lanesAt + layout.lanes.length * layout.laneHeight, under: true });
		}
		if (layout.alone && lanesAre === "lock" && layout.laneHeight >= 11) {
			for (const lane of layout.lanes) label(data.lanes[lane], 5, row.lanesAt + (layout.laneAt.get(lane) + 0.5) * layout.laneHeight, c.text, c.back, "left", "10px system-ui, sans-serif");
		}
		if (layout.alone && lanesAre === "worker" && drawn.fine && layout.laneHeight >= 11) {
			for (const w of layout.lanes) label("worker " + w, 5, row.lanesAt + (layout.laneAt.get(w) + 0.5) * layout.laneHeight, c.text, c.back, "left", "10px system-ui, sans-serif");
		}
	}

	// clusters joins marks that would overlap, so that one stands for several. The marks are in
	// the order of x; width says how wide a mark is that stands for some of them.
	function clusters(marks, width) {
		const all = [];
		for (const m of marks) {
			let c = { list: [m], x: m.x, w: width([m]) };
			while (all.length && c.x - all.at(-1).x < (c.w + all.at(-1).w) / 2 + 2) {
				const { list } = all.pop();
				c = { list: [...list, ...c.list] };
				c.x = (c.list[0].x + c.list.at(-1).x) / 2;
				c.w = width(c.list);
			}
			all.push(c);
		}
		return all;
	}

	// mark draws a sign for some { kind, i, at }. A pointer over it is told of each.
	function mark(list, glyph, x, y, colour) {
		ink.globalAlpha = 1;
		ink.font = "11px system-ui, sans-serif";
		const half = Math.max(ink.measureText(glyph).width / 2 + 1, 7);
		x = Math.min(Math.max(x, half), layout.width - half); // all of it must be seen
		ink.textAlign = "center";
		ink.lineWidth = 3;
		ink.lineJoin = "round";
		ink.strokeStyle = theme().back;
		ink.strokeText(glyph, x, y + 0.5);
		ink.fillStyle = colour;
		ink.fillText(glyph, x, y + 0.5);
		ink.textAlign = "left";
		sign(list, x, y, half, 8);
	}

	// sign notes what a pointer finds at a place.
	const sign = (list, x, y, w, h) => drawn.marks.push({ ...(list.length === 1 ? list[0] : { kind: "several", list }), first: list[0].kind, x0: x - w, x1: x + w, y0: y - h, y1: y + h });

	const glyphs = { began: "▶", ended: "■", revoked: "◆", stale: "◇", failure: "!", session: "○" };
	// together writes the signs of several marks as one, with how often.
	function together(list) {
		const times = new Map();
		for (const { glyph } of list) times.set(glyph, (times.get(glyph) ?? 0) + 1);
		const ended = times.get("ended") ?? 0, began = times.get("began") ?? 0, again = Math.min(ended, began);
		times.set("again", again).set("ended", ended - again).set("began", began - again);
		const words = ["failure", "again", "ended", "began", "session", "revoked", "stale"].filter((g) => times.get(g) > 0);
		return words.map((g) => (glyphs[g] ?? "↻") + (times.get(g) > 1 ? number(times.get(g)) : "")).join("");
	}

	// drawStrip shows what happened to a process, below its name.
	function drawStrip(row, c, sessions) {
		const marks = [];
		for (const [i, l] of data.lives.entries()) {
			if (l.p !== row.p) continue;
			if (visible(l.from, l.from)) marks.push({ kind: "life", glyph: "began", i, at: l.from, note: "began" });
			if (!l.open && visible(l.until, l.until)) marks.push({ kind: "life", glyph: "ended", i, at: l.until, note: "ended" });
		}
		for (const [i, p] of data.points.entries()) {
			if (p.p !== row.p || p.lock >= 0 || !visible(p.at, p.at) || p.kind !== "failure" && !sessions) continue;
			marks.push({ kind: "point", glyph: p.kind, i, at: p.at });
		}
		for (const m of marks) m.x = Math.min(Math.max(xOf(m.at), 7), layout.width - 7);
		drawTogether(marks, row.y + head + strip / 2, c);
	}

	// drawTogether draws the marks of a line.
	function drawTogether(marks, y, c) {
		marks.sort((a, b) => a.x - b.x || a.at - b.at);
		ink.font = "11px system-ui, sans-serif";
		for (const { list, x } of clusters(marks, (list) => ink.measureText(together(list)).width)) {
			mark(list, together(list), x, y, list.some((m) => m.glyph === "failure") ? c.bad : c.text);
		}
	}

	// drawLosses shows the lost holds of a process, in the lanes of their locks.
	function drawLosses(row, c) {
		const lanes = new Map();
		for (const [i, l] of data.losses.entries()) {
			if (l.p !== row.p || !visible(l.at, l.at) || !shownLanes.has(data.laneOf[l.lock])) continue;
			const at = layout.laneAt.get(lanesAre === "lock" ? data.laneOf[l.lock] : l.w[0]) ?? 0;
			if (!lanes.has(at)) lanes.set(at, []);
			lanes.get(at).push({ kind: "loss", i, at: l.at, x: xOf(l.at) });
		}
		const small = Math.min(Math.max(layout.laneHeight / 2, 3.5), 5.5); // those of two lanes must not overlap
		const count = (list) => (list.length > 1 ? number(list.length) : "");
		const width = (list) => 2 * small + (list.length > 1 ? ink.measureText(count(list)).width + 1 : 0);
		for (const [at, marks] of lanes) {
			ink.font = "bold 10px system-ui, sans-serif";
			for (const { list, x, w } of clusters(marks, width)) {
				const mine = chosen?.kind === "loss" && list.some((m) => m.i === chosen.i), r = mine ? 8 : small;
				const y = row.lanesAt + (at + 0.5) * layout.laneHeight, middle = x - w / 2 + small;
				ink.globalAlpha = 1;
				ink.beginPath();
				ink.arc(middle, y, r, 0, 7);
				ink.fillStyle = c.back;
				ink.fill();
				ink.lineWidth = 1.5;
				ink.strokeStyle = c.text;
				ink.stroke();
				ink.beginPath();
				const d = r * 0.5;
				ink.moveTo(middle - d, y - d);
				ink.lineTo(middle + d, y + d);
				ink.moveTo(middle + d, y - d);
				ink.lineTo(middle - d, y + d);
				ink.lineWidth = r < 5 ? 1.5 : 2;
				ink.stroke();
				if (list.length > 1) {
					ink.lineWidth = 3;
					ink.strokeStyle = c.back;
					ink.strokeText(count(list), middle + r + 1, y + 0.5);
					ink.fillStyle = c.text;
					ink.fillText(count(list), middle + r + 1, y + 0.5);
				}
				sign(list, x, y, w / 2 + 3, r + 2);
			}
		}
	}

	function drawMarks(c) {
		const inView = data.points.filter((p) => visible(p.at, p.at)), lanes = new Map();
		for (const [i, p] of data.points.entries()) {
			if (!visible(p.at, p.at)) continue;
			if (p.kind === "stopping") {
				ink.fillStyle = c.dim;
				ink.fillRect(xOf(p.at), layout.rowsAt, 1, layout.height - layout.rowsAt);
				continue;
			}
			const row = layout.rowOf.get(p.p);
			if (!row || p.lock < 0 || p.kind !== "failure" && inView.length > 400) continue;
			const at = layout.laneAt.get(lanesAre === "lock" ? data.laneOf[p.lock] : p.w);
			if (at === undefined || !shownLanes.has(data.laneOf[p.lock])) continue;
			const y = row.lanesAt + (at + 0.5) * layout.laneHeight;
			if (!lanes.has(y)) lanes.set(y, []);
			lanes.get(y).push({ kind: "point", glyph: p.kind, i, at: p.at, x: xOf(p.at) });
		}
		for (const [y, marks] of lanes) drawTogether(marks, y, c);
		for (const row of layout.rows) {
			drawStrip(row, c, drawn.fine && inView.length <= 400);
			drawLosses(row, c);
		}
	}

	function drawFindings(c) {
		const marks = [...data.findings.entries()].filter(([, f]) => visible(f.at, f.at)).map(([i, f]) => ({ kind: "finding", i, at: f.at, x: xOf(f.at) }));
		ink.fillStyle = c.bad;
		for (const { x } of marks) ink.fillRect(x - 0.75, overviewHeight + axisHeight - 4, 1.5, layout.height);
		const word = (list) => "▼" + (list.length > 1 ? number(list.length) : "");
		ink.font = "11px system-ui, sans-serif";
		for (const { list, x } of clusters(marks.sort((a, b) => a.x - b.x), (list) => ink.measureText(word(list)).width)) {
			mark(list, word(list), x, overviewHeight + axisHeight - 9, c.bad);
		}
	}

	// faultBars draws the faults of one track, each with as much of its name as has room
	// before the next. What is left of taken is not free.
	function faultBars(all, y, h, taken, c, full) {
		const inView = all.filter((i) => visible(data.faults[i].from, data.faults[i].until));
		ink.font = "11px system-ui, sans-serif";
		for (const [k, i] of inView.entries()) {
			const f = data.faults[i], mine = chosen?.kind === "fault" && chosen.i === i;
			const x = xOf(f.from), left = Math.max(x, -3), right = Math.min(Math.max(xOf(f.until), x + 3), layout.width + 3);
			ink.globalAlpha = 1;
			ink.fillStyle = c.faultBack;
			ink.fillRect(left, y, right - left, h);
			ink.strokeStyle = mine ? c.text : c.fault;
			ink.lineWidth = mine ? 2 : 1;
			ink.strokeRect(left + 0.5, y + 0.5, right - left - 1, h - 1);
			const target = { i, x0: left - 2, x1: right + 2, y0: y, y1: y + h };
			drawn.faults.push(target);
			const next = inView[k + 1];
			const limit = Math.min(next === undefined ? Infinity : xOf(data.faults[next].from), layout.width) - 3;
			const words = [faultName(f), "#" + f.n];
			if (full && f.target) words.unshift(faultName(f) + " → " + f.target);
			for (const word of words) {
				const room = ink.measureText(word).width;
				const inside = Math.max(left + 4, taken);
				const at = inside + room < right - 3 ? inside : right + 3;
				if (at < taken || at + room > limit) continue;
				ink.fillStyle = c.text;
				ink.textAlign = "left";
				ink.fillText(word, at, y + h / 2 + 0.5);
				target.x1 = Math.max(right, at + room) + 2;
				break;
			}
		}
	}

	function drawFaults(c) {
		const { tracks, faultsAt } = layout;
		ink.fillStyle = c.back;
		ink.fillRect(0, overviewHeight, layout.width, layout.rowsAt - overviewHeight);
		// Each gets a track in which its name has room, if there is one.
		const ends = Array(tracks).fill(-Infinity), inTrack = Array.from(ends, () => []);
		ink.font = "11px system-ui, sans-serif";
		for (const [i, f] of data.faults.entries()) {
			if (!visible(f.from, f.until)) continue;
			const x = xOf(f.from), end = Math.max(xOf(f.until), x + 3 + ink.measureText(faultName(f)).width + 12);
			let best = ends.findIndex((e) => e <= x);
			if (best < 0) best = ends.indexOf(Math.min(...ends));
			ends[best] = Math.max(ends[best], end);
			inTrack[best].push(i);
		}
		for (const [t, all] of inTrack.entries()) faultBars(all, faultsAt + t * track + 1, track - 3, 0, c, true);
		for (const row of layout.serverRows) {
			ink.fillStyle = c.band;
			ink.fillRect(0, row.y, layout.width, track - 1);
			heading("server " + row.number, row.y, track - 1, c, (free) => {
				faultBars([...data.faults.keys()].filter((i) => serverOf(data.faults[i]) === row.number), row.y + 1, track - 3, free, c, false);
			});
		}
	}

	// heading writes the name of a row over what is drawn beside it.
	function heading(name, y, h, c, beside) {
		const font = "bold 12px system-ui, sans-serif";
		ink.font = font;
		const free = ink.measureText(name).width + 14;
		beside(free);
		ink.globalAlpha = 1;
		ink.fillStyle = c.band;
		ink.fillRect(0, y, free - 4, h);
		label(name, 5, y + h / 2, c.text, null, "left", font);
	}

	const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 9e8, 1.8e9, 3.6e9, 7.2e9, 2.16e10, 4.32e10, 8.64e10];
	const gridStep = () => steps.find((s) => s >= (view.until - view.from) / layout.width * 80) ?? 8.64e10;
	function drawGrid(c) {
		const step = gridStep();
		ink.globalAlpha = 0.6;
		ink.fillStyle = c.line;
		for (let t = Math.ceil(view.from / step) * step; t <= view.until; t += step) ink.fillRect(xOf(t), layout.rowsAt, 1, layout.height);
		ink.globalAlpha = 1;
	}

	function drawAxis(c) {
		const y = overviewHeight, step = gridStep();
		const digits = step >= 1e6 ? 0 : step >= 1e3 ? 3 : 6;
		ink.font = "11px system-ui, sans-serif";
		ink.fillStyle = c.dim;
		for (let t = Math.ceil(view.from / step) * step; t <= view.until; t += step) {
			const x = xOf(t), words = clock(t, digits), w = ink.measureText(words).width;
			ink.fillRect(x, y + axisHeight - 4, 1, 4);
			ink.fillText(words, Math.min(Math.max(x - w / 2, 2), layout.width - w - 2), y + 10);
		}
		ink.fillStyle = c.dim;
		ink.fillRect(0, y + axisHeight - 1, layout.width, 1);
		if (!goneHeight) return;
		ink.fillStyle = hatch(c.dim, true);
		for (const [from, until] of data.gone) {
			if (visible(from, until)) ink.fillRect(xOf(from), y + axisHeight, Math.max(xOf(until) - xOf(from), 1), goneHeight - 1);
		}
	}

	// The overview shows the whole run, and which part of it is below.
	const overviewX = (us) => (us - whole.from) / (whole.until - whole.from) * layout.width;
	function drawOverview(c) {
		const { width } = layout, h = overviewHeight - 2;
		ink.fillStyle = c.band;
		ink.fillRect(0, 0, width, h);
		ink.fillStyle = c.fault;
		for (const f of data.faults) ink.fillRect(overviewX(f.from), 1, Math.max(overviewX(f.until) - overviewX(f.from), 1.5), 5);
		const columns = new Float64Array(Math.ceil(width / 2) + 1);
		for (const [key, base] of cellRow) {
			if (!shownProcesses.has(Math.floor(key / laneCount)) || !shownLanes.has(key % laneCount)) continue;
			for (let i = 0; i < cells; i++) columns[Math.floor(overviewX(data.from + (i + 0.5) * cellWidth) / 2)] += cellGrants[base * cells + i];
		}
		const most = columns.reduce((a, b) => Math.max(a, b), 1);
		ink.fillStyle = c.dim;
		ink.globalAlpha = 0.55;
		columns.forEach((n, i) => ink.fillRect(i * 2, h - n / most * (h - 12), 2, n / most * (h - 12)));
		ink.globalAlpha = 1;
		for (const l of data.losses) {
			ink.fillStyle = c.text;
			ink.fillRect(overviewX(l.at) - 1, h - 10, 2, 10);
		}
		for (const f of data.findings) {
			ink.fillStyle = c.bad;
			ink.fillRect(overviewX(f.at) - 1.5, 0, 3, h);
		}
		const from = Math.max(overviewX(view.from), 0), until = Math.min(overviewX(view.until), width);
		ink.globalAlpha = 0.6;
		ink.fillStyle = c.back;
		ink.fillRect(0, 0, from, h);
		ink.fillRect(until, 0, width - until, h);
		ink.globalAlpha = 1;
		ink.strokeStyle = c.link;
		ink.lineWidth = 2;
		ink.strokeRect(from + 1, 1, Math.max(until - from - 2, 2), h - 2);
		label("grants", 6, h - 8, c.dim, c.band, "left", "10px system-ui, sans-serif");
	}

	// ---- Details ----

	function describe(what) {
		if (!what || what.i < 0) return null;
		const { kind, i } = what;
		switch (kind) {
		case "fault": {
			const f = data.faults[i];
			return { title: "Fault " + faultName(f), link: "fault-" + f.n, rows: [...(f.told === f.n ? [] : [["in the history", "fault " + f.told]]), ["target", f.target || "–"], ["from", when(f.from)], ["until", when(f.until) + (f.until - f.from >= 1000 ? ", after " + duration(f.until - f.from) : "")],
				["may have cost", f.lost.length ? f.lost.join("; ") : "no lock"]] };
		}
		case "loss": {
			const l = data.losses[i];
			return { title: "Lost: " + data.locks[l.lock] + ", by " + processName(l.p), link: "loss-" + (i + 1), rows: [["told at", when(l.at)], ["workers", list(l.w)], ["token", l.token], ["why", l.text || "not known"],
				["faults then", list(faultsIn(l.at, l.at)) || "none"], ["ended before", list(faultsIn(l.at - 2 * data.timeout, l.at).filter((f) => !faultsIn(l.at, l.at).includes(f))) || "none within two session timeouts"]] };
		}
		case "finding": {
			const f = data.findings[i];
			return { title: "Finding: " + f.check, rows: [["at", when(f.at)], ["lock", f.lock >= 0 ? data.locks[f.lock] : "–"], ["what", f.text], ["faults then", list(data.faults.filter((g) => f.faults.includes(g.n)).map(faultName)) || "none"]] };
		}
		case "several":
			return { title: number(what.list.length) + " marks, too near to be drawn one by one", rows: what.list.map((m) => [clock(m.at), brief(m)]), hint: "Zoom in to see each." };
		case "life": {
			const l = data.lives[i];
			return { title: processName(l.p) + " " + (what.note === "began" ? "began" : "ended"), rows: [["began", when(l.from)], ["ended", l.open ? "not before the history did" : when(l.until)], ["started before", number(l.inc) + (l.inc === 1 ? " time" : " times")], ["how it ended", l.text || "–"]] };
		}
		case "outage": {
			const [p, from, until, over] = data.outages[i];
			return { title: "The session of " + processName(p) + " was suspended", rows: [["from", when(from)], ["for", duration(until - from)], ["then", over ? "it ended" : "it was resumed, or the history ended"]] };
		}
		case "point": {
			const p = data.points[i];
			const names = { revoked: "A worker was asked to give up the lock", stale: "A write with an old token was refused", failure: "Failure", session: "Session" };
			const rows = [["at", when(p.at)], ["worker", p.p < 0 ? "–" : processName(p.p) + ", worker " + p.w]];
			if (p.lock >= 0) rows.push(["lock", data.locks[p.lock]]);
			if (p.text) rows.push(["text", data.texts[p.text]]);
			return { title: names[p.kind] ?? p.kind, rows };
		}
		case "span": {
			const held = !neverGranted.has(outcome[i]);
			const rows = [["worker", processName(owner[i]) + ", worker " + worker[i]], ["asked at", when(start[i])],
				["waited", duration(granted[i] - start[i])]];
			if (modes[mode[i]]) rows.push(["mode", modes[mode[i]] + (lastMode[i] ? ", then " + modes[lastMode[i]] : "")]);
			if (held) {
				rows.push(["held", duration(ended[i] - granted[i]) + ", from " + clock(granted[i], 6)]);
				rows.push(["token", turn[i] ? token[i] + "/" + turn[i] : String(token[i])]);
			}
			if (settled[i] > ended[i]) rows.push(["release took", duration(settled[i] - ended[i])]);
			rows.push([outcome[i] === LOST ? "lost" : "end", outcome[i] === LOST ? data.texts[text[i]] || "cause not known" : outcomes[outcome[i]] + (text[i] ? ": " + data.texts[text[i]] : "")]);
			const faults = faultsIn(start[i], settled[i]);
			if (faults.length) rows.push(["faults", list(faults)]);
			return { title: data.locks[lock[i]], swatch: colourOf(data.laneOf[lock[i]]), rows };
		}
		case "cell": {
			const at = data.from + what.cell * cellWidth, k = i * cells + what.cell;
			return { title: data.lanes[what.lane] + ", " + processName(what.p), swatch: colourOf(what.lane), rows: [["from", clock(at) + " for " + duration(cellWidth)], ["held", Math.round(cellHeld[k] / 2.55) + " % of this time"],
				["waiting", (cellWaited[k] / 10).toFixed(1) + " workers on average"], ["grants", number(cellGrants[k])]], hint: "Totals. " + (goneAt(at) ? "The page has no more of this time." : "Zoom in for single acquisitions.") };
		}
		}
		return null;
	}
	// brief describes one of several marks in a line.
	function brief({ kind, i, note }) {
		switch (kind) {
		case "loss":
			return "lost: " + data.locks[data.losses[i].lock] + ", by " + processName(data.losses[i].p);
		case "finding":
			return data.findings[i].check;
		case "life":
			return processName(data.lives[i].p) + " " + note + (note === "ended" && data.lives[i].text ? ": " + data.lives[i].text : "");
		}
		const about = describe({ kind, i });
		return about.title + data.texts[data.points[i].text].replace(/^(?=.)/, ": ");
	}
	const goneAt = (t) => data.gone.some(([from, until]) => from <= t && t < until);

	// fill shows a description in an element.
	function fill(element, about) {
		const parts = [];
		if (about) {
			const title = document.createElement("p"), name = document.createElement("b"), facts = document.createElement("dl");
			name.textContent = about.title;
			title.append(name);
			const most = element.id === "tip" ? 12 : 200;
			const left = about.rows.length - most;
			for (const [k, v] of left > 0 ? [...about.rows.slice(0, most), ["…", number(left) + " more"]] : about.rows) {
				const dt = document.createElement("dt"), dd = document.createElement("dd");
				dt.textContent = k;
				dd.textContent = v;
				facts.append(dt, dd);
			}
			parts.push(title, facts);
			if (about.hint) {
				const hint = document.createElement("p");
				hint.className = "dim";
				hint.textContent = about.hint;
				parts.push(hint);
			}
			if (about.link && document.getElementById(about.link) && element.id === "details") {
				const a = document.createElement("a");
				a.href = "#" + about.link;
				a.textContent = "See it in the table";
				parts.push(a);
			}
		}
		element.replaceChildren(...parts);
	}

	function choose(what) {
		chosen = what;
		fill($("details"), describe(what));
		redraw();
	}

	// hit returns what is drawn at a place.
	function hit(x, y) {
		const inside = (m) => x >= m.x0 && x <= m.x1 && y >= m.y0 && y <= m.y1;
		const nearest = (all) => all.filter(inside).sort((a, b) => Math.abs(a.x0 + a.x1 - 2 * x) - Math.abs(b.x0 + b.x1 - 2 * x))[0];
		const order = { loss: 0, finding: 1, point: 2, life: 3 };
		const marks = drawn.marks.filter((m) => !m.under && inside(m)).sort((a, b) => order[a.first] - order[b.first] || Math.abs(a.x0 + a.x1 - 2 * x) - Math.abs(b.x0 + b.x1 - 2 * x));
		if (marks[0]) return marks[0];
		const fault = nearest(drawn.faults);
		if (fault) return { kind: "fault", i: fault.i };
		const row = layout.rows.find((r) => y >= r.y && y < r.lanesAt + layout.lanes.length * layout.laneHeight);
		if (!row) return null;
		if (y < row.y + head) return { kind: "process", p: row.p };
		if (y < row.lanesAt) return null;
		const t = timeAt(x), slack = (view.until - view.from) / layout.width * 3;
		if (drawn.fine) {
			const lane = layout.lanes[Math.floor((y - row.lanesAt) / layout.laneHeight)];
			let best = -1, rank = Infinity;
			for (const i of drawn.spans) {
				if (owner[i] !== row.p || laneOfSpan(i) !== lane || start[i] - slack > t || settled[i] + slack < t) continue;
				const held = !neverGranted.has(outcome[i]) && granted[i] - slack <= t && t <= ended[i] + slack;
				const off = held ? Math.max(granted[i] - t, t - ended[i], 0) / slack : 2;
				if (off < rank) {
					rank = off;
					best = i;
				}
			}
			if (best >= 0) return { kind: "span", i: best };
		}
		const under = drawn.marks.find((m) => m.under && inside(m));
		if (under) return under;
		if (drawn.fine && !goneAt(t)) return null;
		const lanes = [...shownLanes].sort((a, b) => a - b);
		const lane = lanes[Math.floor((y - row.lanesAt) / (layout.lanes.length * layout.laneHeight) * lanes.length)];
		const base = cellRow.get(row.p * laneCount + lane), cell = Math.floor((t - data.from) / cellWidth);
		if (base === undefined || cell < 0 || cell >= cells) return null;
		return { kind: "cell", i: base, cell, lane, p: row.p };
	}

	// ---- Moving ----

	function show(from, until) {
		const least = 20, most = whole.until - whole.from;
		const length = Math.min(Math.max(until - from, least), most);
		from = Math.min(Math.max((from + until - length) / 2, whole.from), whole.until - length);
		view.from = from;
		view.until = from + length;
		tip.hidden = true;
		redraw();
	}
	const zoom = (factor, at = (view.from + view.until) / 2) => {
		const length = Math.min(Math.max((view.until - view.from) * factor, 20), whole.until - whole.from);
		const share = (at - view.from) / (view.until - view.from);
		show(at - share * length, at + (1 - share) * length);
	};
	const pan = (share) => {
		const d = share * (view.until - view.from);
		const bounded = Math.min(Math.max(d, whole.from - view.from), whole.until - view.until);
		show(view.from + bounded, view.until + bounded);
	};
	const showWhole = () => show(whole.from, whole.until);

	// step goes to the next or the previous loss, fault or finding.
	function step(direction) {
		const kind = $("what").value;
		const all = { loss: data.losses, fault: data.faults, finding: data.findings }[kind];
		const at = (e) => e.at ?? e.from;
		const order = [...all.keys()].sort((a, b) => at(all[a]) - at(all[b]));
		if (!order.length) {
			fill($("details"), { title: "There is no " + kind + ".", rows: [] });
			return;
		}
		let k;
		if (chosen?.kind === kind) k = order.indexOf(chosen.i) + direction;
		else if (direction > 0) k = order.findIndex((i) => at(all[i]) >= view.from);
		else k = order.findLastIndex((i) => at(all[i]) <= view.until);
		if (k < 0 || k >= order.length) k = direction > 0 ? 0 : order.length - 1;
		const e = all[order[k]];
		if (kind === "fault") around(e.from, e.until);
		else around(at(e), at(e));
		if (kind === "loss") {
			shownProcesses.add(e.p);
			shownLanes.add(data.laneOf[e.lock]);
			check();
		}
		choose({ kind, i: order[k] });
	}
	const around = (from, until) => {
		const m = Math.max((until - from) / 3, 1.5e6);
		show(from - m, until + m);
	};

	const place = (event) => {
		const box = picture.getBoundingClientRect();
		return [event.clientX - box.left, event.clientY - box.top];
	};
	let armed = false; // the wheel zooms
	picture.addEventListener("wheel", (event) => {
		const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
		if (sideways) pan(sideways / layout.width);
		else if (armed || event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.002)), timeAt(place(event)[0]));
		else return; // the page scrolls
		event.preventDefault();
	}, { passive: false });

	const fingers = new Map();
	let moved = 0, overview = false;
	picture.addEventListener("pointerdown", (event) => {
		const [x, y] = place(event);
		fingers.set(event.pointerId, [x, y]);
		picture.setPointerCapture(event.pointerId);
		if (fingers.size === 1) {
			moved = 0;
			overview = y < overviewHeight;
			if (overview) centre(x);
		}
	});
	const centre = (x) => {
		const t = whole.from + x / layout.width * (whole.until - whole.from), half = (view.until - view.from) / 2;
		show(t - half, t + half);
	};
	picture.addEventListener("pointermove", (event) => {
		const [x, y] = place(event);
		const old = fingers.get(event.pointerId);
		if (!old) {
			hover(x, y);
			return;
		}
		moved += Math.abs(x - old[0]) + Math.abs(y - old[1]);
		if (overview) centre(x);
		else if (fingers.size === 1 && moved > 4) pan((old[0] - x) / layout.width);
		else if (fingers.size === 2) {
			const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
			const before = Math.max(Math.abs(old[0] - other[0]), 20), after = Math.max(Math.abs(x - other[0]), 20);
			zoom(before / after, timeAt((x + other[0]) / 2));
			pan((old[0] - x) / 2 / layout.width);
		}
		fingers.set(event.pointerId, [x, y]);
	});
	picture.addEventListener("pointerup", (event) => {
		const [x, y] = place(event);
		if (fingers.delete(event.pointerId) && fingers.size === 0 && moved <= 4 && !overview) {
			armed = true;
			const what = hit(x, y);
			if (what?.kind === "process") only(what.p);
			else choose(what);
		}
	});
	for (const gone of ["pointercancel", "lostpointercapture"]) picture.addEventListener(gone, (event) => fingers.delete(event.pointerId));
	picture.addEventListener("pointerleave", () => { tip.hidden = true; });
	picture.addEventListener("blur", () => { armed = false; });
	picture.addEventListener("dblclick", (event) => {
		const [x, y] = place(event);
		if (y > overviewHeight && hit(x, y)?.kind !== "process") zoom(1 / 4, timeAt(x));
	});

	function hover(x, y) {
		const what = y > overviewHeight ? hit(x, y) : null;
		const about = what?.kind === "process" ? { title: shownProcesses.size === 1 ? "Show all processes" : "Show " + processName(what.p) + " alone", rows: [] } : describe(what);
		tip.hidden = !about;
		if (!about) return;
		fill(tip, about);
		const w = tip.offsetWidth, h = tip.offsetHeight;
		tip.style.left = Math.max(Math.min(x + 14, layout.width - w - 4), 4) + "px";
		tip.style.top = Math.max(y + 16 + h > layout.height ? y - h - 10 : y + 16, 0) + "px";
	}

	picture.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const act = {
			ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(1 / 2), "=": () => zoom(1 / 2), "-": () => zoom(2),
			Home: showWhole, n: () => step(1), p: () => step(-1), N: () => step(1), P: () => step(-1),
			Escape: () => { armed = false; tip.hidden = true; choose(null); },
		}[event.key];
		if (!act) return;
		event.preventDefault();
		act();
	});

	// ---- Tools ----

	const boxes = [];
	const check = () => {
		for (const [box, set, i] of boxes) box.checked = set.has(i);
		redraw();
	};
	function chips(container, names, set, colour) {
		for (const [i, name] of names.entries()) {
			const chip = document.createElement("label"), box = document.createElement("input"), words = document.createElement("span");
			box.type = "checkbox";
			box.checked = true;
			box.addEventListener("change", () => {
				box.checked ? set.add(i) : set.delete(i);
				redraw();
			});
			boxes.push([box, set, i]);
			chip.append(box);
			if (colour) {
				const swatch = document.createElement("i");
				swatch.dataset.lane = i;
				chip.append(swatch);
			}
			words.textContent = name;
			chip.append(words);
			container.append(chip);
		}
	}
	const paint = () => {
		for (const swatch of document.querySelectorAll("#locks i")) swatch.style.background = colourOf(Number(swatch.dataset.lane));
		redraw();
	};
	const every = (set, n) => {
		for (let i = 0; i < n; i++) set.add(i);
		check();
	};
	function only(p) {
		const alone = shownProcesses.size === 1;
		shownProcesses.clear();
		if (alone) every(shownProcesses, data.processes.length);
		else shownProcesses.add(p);
		tip.hidden = true;
		check();
	}
	chips($("processes"), data.processes.map(String), shownProcesses, false);
	chips($("locks"), data.lanes, shownLanes, true);
	$("every-process").addEventListener("click", () => every(shownProcesses, data.processes.length));
	$("every-lock").addEventListener("click", () => every(shownLanes, laneCount));
	$("no-lock").addEventListener("click", () => { shownLanes.clear(); check(); });
	$("in").addEventListener("click", () => zoom(1 / 2));
	$("out").addEventListener("click", () => zoom(2));
	$("left").addEventListener("click", () => pan(-0.4));
	$("right").addEventListener("click", () => pan(0.4));
	$("all").addEventListener("click", showWhole);
	$("next").addEventListener("click", () => step(1));
	$("previous").addEventListener("click", () => step(-1));
	$("lanes").addEventListener("change", (event) => { lanesAre = event.target.value; redraw(); });
	if (!data.losses.length) $("what").value = data.findings.length ? "finding" : "fault";
	$("tools").hidden = false;

	// Links from the tables scroll the timeline to a time.
	document.addEventListener("click", (event) => {
		const link = event.target.closest("a.go");
		if (!link) return;
		event.preventDefault();
		every(shownProcesses, data.processes.length);
		every(shownLanes, laneCount);
		const from = Number(link.dataset.from), until = Number(link.dataset.until);
		show(from, until);
		const i = Number(link.dataset.i), { kind } = link.dataset; // a fault's number, or the index of a loss or finding
		choose({ kind, i: kind === "fault" ? data.faults.findIndex((f) => f.n === i) : i });
		stage.scrollIntoView({ block: "center" });
		picture.focus({ preventScroll: true });
	});

	// An address that ends in #at-63.2 shows what happened 63.2 seconds after the beginning.
	const seek = () => {
		const seconds = Number(location.hash.match(/^#at-(\d+(?:\.\d+)?)$/)?.[1] ?? NaN);
		if (Number.isNaN(seconds)) return;
		around(seconds * 1e6, seconds * 1e6);
		stage.scrollIntoView({ block: "center" });
	};
	addEventListener("hashchange", seek);
	seek();

	dark.addEventListener("change", paint);
	addEventListener("beforeprint", () => { printing = true; paint(); draw(); });
	addEventListener("afterprint", () => { printing = false; paint(); draw(); });
	new ResizeObserver(redraw).observe(stage);
	paint();
	draw();
	document.documentElement.dataset.ready = "yes"; // for tools that take pictures
})().catch((err) => {
	const problem = document.getElementById("problem");
	problem.textContent = "The timeline failed: " + err.message + ". All else on this page is complete.";
	problem.hidden = false;
	throw err;
});
