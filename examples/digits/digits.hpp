// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The images: read from a file, checked, and split into those to train on and those held out.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <zlib.h>

inline constexpr int pixels = 64, classes = 10;

// A file that cannot be used: says which line is wrong and what to do.
struct data_error : std::runtime_error {
  data_error(std::string const& where, std::string const& what)
      : std::runtime_error(where + ": " + what +
                           "; give a file of lines with 64 pixels (0 to 16) and a label (0 to 9), or get "
                           "examples/data/digits.csv.gz anew from the project") {}
};

// Images are the columns of a matrix, pixels from 0 to 1.
struct digits {
  Eigen::MatrixXf images;
  std::vector<int> labels;
};

struct split {
  digits training, held_out;
};

namespace detail {

// The text of a file, compressed or not.
inline std::string text_of(std::string const& path) {
  errno = 0;
  gzFile const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw data_error(path, std::string("cannot open it: ") + std::strerror(errno));
  std::string text;
  char part[65536];
  int n = 0;
  while ((n = gzread(file, part, sizeof part)) > 0) text.append(part, static_cast<std::size_t>(n));
  int code = Z_OK;
  std::string_view why = gzerror(file, &code);  // "<path>: <reason>"
  if (code == Z_ERRNO) throw data_error(path, std::string("cannot read it: ") + std::strerror(errno));
  if (why.starts_with(path)) why.remove_prefix(path.size() + 2);
  std::string const reason(why);
  gzclose(file);
  // A stream that ends early is an error that is told only after all that could be read.
  if (code != Z_OK && code != Z_STREAM_END)
    throw data_error(path + ":" + std::to_string(std::count(text.begin(), text.end(), '\n') + 1),
                     "the compressed data is damaged, here or above (" + reason + ")");
  return text;
}

// The number at the front of `line`, from 0 to `most`; takes it and the comma behind it away.
inline int take_number(std::string_view& line, int most, std::string const& where, std::string const& what) {
  std::string_view const field = line.substr(0, line.find(','));
  line.remove_prefix(field.size() < line.size() ? field.size() + 1 : field.size());
  int value = -1;
  auto const [end, fault] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (fault != std::errc{} || end != field.data() + field.size() || value < 0 || value > most)
    throw data_error(where,
                     what + " is \"" + std::string(field) + "\", not a number from 0 to " + std::to_string(most));
  return value;
}

}  // namespace detail

// Reads all images; every fifth of the file, beginning with the first, is held out.
inline split read_digits(std::string const& path) {
  std::string const text = detail::text_of(path);
  std::vector<float> values[2];
  std::vector<int> labels[2];
  int number = 0;
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(line.size() < left.size() ? line.size() + 1 : line.size());
    std::size_t const held_out = number % 5 == 0;
    std::string const where = path + ":" + std::to_string(++number);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (auto const fields = std::count(line.begin(), line.end(), ',') + 1; fields != pixels + 1)
      throw data_error(where, std::to_string(fields) + " numbers where 65 belong");
    for (int i = 0; i < pixels; ++i) {
      int const value = detail::take_number(line, 16, where, "pixel " + std::to_string(i + 1));
      values[held_out].push_back(static_cast<float>(value) / 16);
    }
    labels[held_out].push_back(detail::take_number(line, classes - 1, where, "the label"));
  }
  if (labels[0].empty()) throw data_error(path, std::to_string(number) + " images, which is too few");
  auto const gather = [&](std::size_t i) {
    Eigen::Index const count = static_cast<Eigen::Index>(labels[i].size());
    return digits{Eigen::Map<Eigen::MatrixXf>(values[i].data(), pixels, count), std::move(labels[i])};
  };
  return {gather(0), gather(1)};
}
