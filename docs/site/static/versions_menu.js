// A menu of the versions that versions.js names; the same page of another version, or its front page.
document.addEventListener("DOMContentLoaded", () => {
  const versions = window.ONTARGET_VERSIONS || [];
  const place = document.querySelector(".sidebar-brand");
  if (!place || versions.length < 2) return;
  const here = document.documentElement.dataset.content_root || "./";
  const root = new URL(here, location.href).href;
  const page = location.href.slice(root.length);
  const menu = document.createElement("select");
  menu.className = "versions";
  menu.setAttribute("aria-label", "Version of these pages");
  for (const version of versions) {
    const own = root.endsWith(`/${version.name}/`);
    menu.add(new Option(version.name, version.name, own, own));
  }
  menu.addEventListener("change", () => {
    const chosen = versions.find((version) => version.name === menu.value);
    const same = page.split(/[?#]/)[0];
    location.href = new URL(`../${chosen.name}/${chosen.pages.includes(same) ? same : "index.html"}`, root).href;
  });
  place.after(menu);
});
