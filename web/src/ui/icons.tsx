/** The icons of the navigation. */
const PATHS = {
  sessions: "M2 3h12v3H2zM2 8h12v5H2z",
  compare: "M2 3h5v10H2zM9 3h5v10H9z",
  types: "M8 2l6 3v6l-6 3-6-3V5z M2 5l6 3 6-3M8 8v6",
  projects: "M2 4h4l1.5 2H14v7H2z",
  operations: "M2 13l3-5 3 2 5-7M2 14h12",
};
export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" stroke-linecap="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
