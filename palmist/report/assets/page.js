'use strict';
// Draws the charts of the page, and again when light turns to dark or the page is printed.
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll('.chart')];
  const kPrintedWidth = 660;  // pixels; the text of an A4 page at 96 to the inch

  // Returns a copy of `value` with each name of a CSS variable replaced by what it stands for.
  const resolve = (value, style) => {
    if (typeof value === 'string') {
      return value.startsWith('--') ? style.getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => resolve(each, style));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
        Object.entries(value).map(([key, each]) => [key, resolve(each, style)]));
  };

  // Returns `defaults` with what `given` says put over it.
  const merge = (defaults, given) => {
    const isObject = (each) => each !== null && typeof each === 'object' && !Array.isArray(each);
    if (!isObject(defaults) || !isObject(given)) return given;
    const merged = {...defaults};
    for (const [key, each] of Object.entries(given)) merged[key] = merge(defaults[key], each);
    return merged;
  };

  const axis = {
    automargin: true, gridcolor: '--line', linecolor: '--line', zerolinecolor: '--line',
    fixedrange: true, title: {standoff: 8},
  };
  const defaults = {
    font: {family: getComputedStyle(document.body).fontFamily, size: 13, color: '--text'},
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    margin: {l: 8, r: 8, t: 8, b: 8},
    legend: {
      orientation: 'h', x: 0, xanchor: 'left', y: 1.02, yanchor: 'bottom', traceorder: 'normal',
    },
    hoverlabel: {bgcolor: '--panel', bordercolor: '--line', font: {color: '--text'}},
    xaxis: axis,
    yaxis: axis,
  };

  const draw = (width) => {
    const style = getComputedStyle(root);
    for (const chart of charts) {
      const {data, layout} = JSON.parse(document.getElementById(chart.id + '-json').textContent);
      const size = width ? {width, autosize: false} : {autosize: true};
      Plotly.react(chart, resolve(data, style),
                   {...resolve(merge(defaults, layout), style), ...size},
                   {displayModeBar: false, responsive: !width});
    }
  };

  const unfolded = [];
  addEventListener('beforeprint', () => {
    root.dataset.scheme = 'light';
    for (const details of document.querySelectorAll('details:not([open])')) {
      details.open = true;
      unfolded.push(details);
    }
    draw(kPrintedWidth);
  });
  addEventListener('afterprint', () => {
    delete root.dataset.scheme;
    for (const details of unfolded.splice(0)) details.open = false;
    draw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    if (!root.dataset.scheme) draw();  // paper is light whatever the screen
  });
  draw();
})();
