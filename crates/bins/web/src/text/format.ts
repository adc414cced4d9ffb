// Texts, times and numbers as people read them.

/** Texts from outside with everything visible that would change what is around them. */
export function visible(text: string, most = 4096): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replace(
    /[\u0000-\u0008\u000b-\u001f]|[\u007f-\u009f]|[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,
    (found) => {
      const code = found.codePointAt(0) ?? 0;
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      if (code === 0x7f) return '␡';
      return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
    },
  );
}

/** A duration, such as 1h02m. */
export function span(millis: number): string {
  const all = Math.max(0, Math.round(millis / 1000));
  if (millis < 10_000) return `${Math.max(0, millis / 1000).toFixed(1)}s`;
  const [days, hours, minutes, seconds] = [
    Math.floor(all / 86_400),
    Math.floor(all / 3600) % 24,
    Math.floor(all / 60) % 60,
    all % 60,
  ];
  const two = (value: number) => String(value).padStart(2, '0');
  if (days > 0) return `${days}d${two(hours)}h`;
  if (hours > 0) return `${hours}h${two(minutes)}m`;
  return minutes > 0 ? `${minutes}m${two(seconds)}s` : `${seconds}s`;
}

const grouped = new Intl.NumberFormat('en');
/** A count with its digits in groups. */
export function count(value: number): string {
  return grouped.format(value);
}

/** Bytes with their unit. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A share in percent. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** The time of day. */
export function clock(time: number, utc: boolean): string {
  const date = new Date(time);
  return date.toLocaleTimeString('en-GB', utc ? { timeZone: 'UTC' } : {});
}

/** Both forms of a time, for a title. */
export function whole(time: number): string {
  const date = new Date(time);
  return `${date.toLocaleString('en-GB', { timeZoneName: 'short' })}\n${date.toISOString()}`;
}

/** A word of a command line for POSIX shells. */
export function quoted(word: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  if (!/[\u0000-\u001f\u007f]/.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  const escaped = word.replace(/[\\'\u0000-\u001f\u007f]/g, (found) =>
    found === '\\' || found === "'" ? `\\${found}` : `\\${found.charCodeAt(0).toString(8).padStart(3, '0')}`,
  );
  return `$'${escaped}'`;
}
