"""Style and script of the page of a compile."""

STYLE = """
body { max-width: none; margin: 1rem auto; padding: 0 1rem }
h1 { margin: 0; font-size: 1.4rem } h1 small { font-weight: normal; color: var(--faint); font-size: 1rem }
header p { margin: .2rem 0 .8rem; color: var(--faint) }
main { display: grid; gap: .8rem; grid-template-columns: repeat(3, minmax(0, 1fr)) }
@media (max-width: 900px) { main { grid-template-columns: minmax(0, 1fr) } }
section { border: 1px solid var(--line); border-radius: 8px; display: flex; flex-direction: column;
  overflow: hidden; max-height: 46vh; background: var(--paper) }
section.wide { grid-column: 1 / -1; max-height: none }
section h2 { margin: 0; padding: .3rem .7rem; font-size: .9rem; background: var(--shade);
  border-bottom: 1px solid var(--line) }
section h2 span { font-weight: normal; color: var(--faint) }
section .body { overflow: auto; padding: .4rem 0 }
section pre { margin: 0; padding: 0; background: none; overflow: visible; width: max-content;
  min-width: 100% }
section .missing { margin: .4rem .7rem; color: var(--faint) }
section table { margin: 0 .7rem; width: calc(100% - 1.4rem) } section td, section th { padding: .1rem .5rem }
section svg { display: block; max-width: none; margin: 0 .4rem }
#choice pre { white-space: pre-wrap; width: auto }
#source pre { padding: 0 .7rem; line-height: 1.7 }
.bar { display: inline-block; height: .6em; min-width: 1px; background: var(--link); border-radius: 2px }
.l { display: block; padding: 0 .7rem; min-height: 1.45em; border-left: 4px solid transparent }
.l[data-s] { border-left-color: hsl(var(--h) 60% 62%) }
.s { border-bottom: 2px solid hsl(var(--h) 60% 62%); border-radius: 3px; cursor: pointer }
.s:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
.m { background: hsl(var(--h) 85% 84%) }
.o { box-shadow: inset 4px 0 hsl(var(--h) 60% 62%); background: hsl(var(--h) 80% 95%) }
g.m rect { stroke-width: 3 } g.m text { font-weight: bold } g.o rect { stroke-width: 2.2 }
@media (prefers-color-scheme: dark) { .m { background: hsl(var(--h) 50% 30%) }
  .o { background: hsl(var(--h) 45% 14%) } }
"""

SCRIPT = """
(() => {
  const own = new Map(), around = new Map();
  const put = (map, n, e) => { if (!map.has(n)) map.set(n, []); map.get(n).push(e); };
  const numbers = (e, name) => (e.dataset[name] || '').split(' ').filter(Boolean);
  for (const e of document.querySelectorAll('[data-s]')) for (const n of numbers(e, 's')) put(own, n, e);
  for (const e of document.querySelectorAll('[data-a]')) for (const n of numbers(e, 'a')) put(around, n, e);
  const panels = [...document.querySelectorAll('main > section')];
  let kept = null, shown = '';

  function show(marked, from) {
    if (marked.join(' ') === shown) return;
    shown = marked.join(' ');
    for (const e of document.querySelectorAll('.m, .o')) e.classList.remove('m', 'o');
    for (const n of marked) {
      for (const e of around.get(n) || []) e.classList.add('o');
    }
    for (const n of marked) {
      for (const e of own.get(n) || []) { e.classList.remove('o'); e.classList.add('m');
        e.style.setProperty('--h', hue(n)); }
      for (const e of around.get(n) || []) e.style.setProperty('--h', hue(n));
    }
    for (const p of panels) {
      const body = p.querySelector('.body'), note = p.querySelector('h2 span');
      const first = body.querySelector('.m') || body.querySelector('.o');
      const none = marked.length && !first && p.dataset.marks;
      note.textContent = none ? ' \\u2013 no line of its own' : '';
      if (!first || p === from || p.classList.contains('wide')) continue;
      const a = first.getBoundingClientRect(), b = body.getBoundingClientRect();
      if (a.top < b.top || a.bottom > b.bottom) body.scrollTop += a.top - b.top - 24;
    }
  }

  const hue = n => (Number(n) * 137.5 + 210) % 360;
  const at = e => {
    const found = e instanceof Element ? e.closest('[data-s]') : null;
    return found ? numbers(found, 's') : [];
  };
  const panel = e => e instanceof Element ? e.closest('section') : null;
  document.addEventListener('mouseover', e => {
    const found = at(e.target);
    if (found.length) show(found, panel(e.target));
    else if (kept === null) show([], null);
    else show(kept, null);
  });
  document.addEventListener('focusin', e => { const found = at(e.target);
    if (found.length) show(found, panel(e.target)); });
  document.addEventListener('focusout', () => show(kept || [], null));
  const keep = e => { const found = at(e.target); kept = found.length ? found : null;
    show(kept || [], panel(e.target)); };
  document.addEventListener('click', keep);
  document.addEventListener('keydown', e => {
    if (e.key === 'Enter' || e.key === ' ') { if (at(e.target).length) { keep(e); e.preventDefault(); } }
    if (e.key === 'Escape') { kept = null; show([], null); }
  });
})();
"""
